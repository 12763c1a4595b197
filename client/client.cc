#include "client/client.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/answer_check.h"
#include "client/call_deadline.h"
#include "client/channel.h"
#include "client/error_details.h"
#include "client/token_forms.h"
#include "google/protobuf/wrappers.pb.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

namespace canopy::client {
namespace {

// Checks only that gRPC accepts the text as metadata. The readers of the header interpret it.
bool IsTraceparent(absl::string_view text) {
  constexpr size_t kSize = 55;
  return text.size() == kSize && absl::c_all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
         });
}

absl::Status CheckTraceparent(absl::string_view text) {
  return text.empty() || IsTraceparent(text)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("traceparent: '", text,
                                                       "' is not 00-TRACE-PARENT-FLAGS; not sent"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const Options& options) {
  if (absl::Status status = options.Validate(); !status.ok()) {
    return status;
  }
  return absl::WrapUnique(new Client(options, OpenChannel(options)));
}

Client::Client(const Options& options, std::shared_ptr<grpc::Channel> channel)
    : options_(options),
      proxy_(*FindProxy(options.target, options.proxy)),
      channel_(std::move(channel)),
      stub_(v1::Scorer::NewStub(channel_)),
      admin_stub_(v1::Admin::NewStub(channel_)) {}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Client::Call(Stub& stub, Method<Stub, Request, Response> method,
                                      const Request& request, const CallOptions& options) {
  const size_t size_bytes = request.ByteSizeLong();
  if (size_bytes > static_cast<size_t>(options_.max_request_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("request of ", size_bytes,
                                                     " bytes exceeds max_request_bytes ",
                                                     options_.max_request_bytes, "; not sent"));
  }
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(options_.deadline));
  if (absl::Status status = CheckTraceparent(options.traceparent); !status.ok()) {
    return status;
  }
  if (!options.traceparent.empty()) {
    context.AddMetadata("traceparent", options.traceparent);
  }
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) {
    return NameProxy(ToAbslStatus(status), proxy_);
  }
  return response;
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                const CallOptions& options) {
  if (HasRaw64(request)) {
    v1::ScoreRequest narrowed = request;
    const absl::Status status = NarrowRaw64(&narrowed);
    return status.ok() ? Score(narrowed, options) : status;
  }
  absl::StatusOr<v1::ScoreResponse> response =
      Call(*stub_, &v1::Scorer::Stub::Score, request, options);
  if (response.ok()) {
    if (absl::Status status = CheckScoreResponse(request, *response); !status.ok()) {
      return status;
    }
  }
  return response;
}

absl::StatusOr<std::unique_ptr<ScoreStream>> Client::OpenStream(const ScoreStreamOptions& options,
                                                                const CallOptions& call) {
  if (options.max_in_flight < 0 || options.max_in_flight > ScoreStreamOptions::kMaxInFlight) {
    return absl::InvalidArgumentError(absl::StrCat("max_in_flight ", options.max_in_flight,
                                                   " must be 0 to ",
                                                   ScoreStreamOptions::kMaxInFlight));
  }
  if (absl::Status status = CheckTraceparent(call.traceparent); !status.ok()) {
    return status;
  }
  ScoreStream::Limits limits;
  limits.traceparent = call.traceparent;
  limits.max_request_bytes = options_.max_request_bytes;
  limits.deadline = options_.deadline;
  limits.proxy = proxy_;
  if (options.max_in_flight > 0) {
    limits.max_in_flight = options.max_in_flight;
  } else {
    const absl::StatusOr<v1::Model> model = GetModel(v1::GetModelRequest());
    if (!model.ok()) {
      return model.status();
    }
    const auto found = model->limits().find("max_stream_in_flight");
    if (found != model->limits().end() && found->second >= 1 &&
        found->second <= uint64_t{ScoreStreamOptions::kMaxInFlight}) {
      limits.max_in_flight = static_cast<int>(found->second);
    }
  }
  return std::make_unique<ScoreStream>(channel_, limits);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::ExplainRequest& request,
                                                    const CallOptions& options) {
  if (HasRaw64(request.request())) {
    v1::ExplainRequest narrowed = request;
    const absl::Status status = NarrowRaw64(narrowed.mutable_request());
    return status.ok() ? Explain(narrowed, options) : status;
  }
  absl::StatusOr<v1::ExplainResponse> response =
      Call(*stub_, &v1::Scorer::Stub::Explain, request, options);
  if (response.ok()) {
    if (absl::Status status = CheckExplainResponse(request, *response); !status.ok()) {
      return status;
    }
  }
  return response;
}

absl::StatusOr<v1::Model> Client::GetModel(const v1::GetModelRequest& request) {
  absl::StatusOr<v1::Model> model = Call(*stub_, &v1::Scorer::Stub::GetModel, request);
  if (model.ok()) {
    if (absl::Status status = CheckModel(request, *model); !status.ok()) {
      return status;
    }
  }
  return model;
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels() {
  return Call(*stub_, &v1::Scorer::Stub::ListModels, v1::ListModelsRequest());
}

absl::StatusOr<v1::Model> Client::LoadWeights(const v1::LoadWeightsRequest& request) {
  absl::StatusOr<v1::Model> model = Call(*admin_stub_, &v1::Admin::Stub::LoadWeights, request);
  if (model.ok()) {
    if (absl::Status status = CheckLoadedModel(request, *model); !status.ok()) {
      return status;
    }
  }
  return model;
}

absl::StatusOr<Health> Client::Check(const std::string& service) {
  // HealthCheckRequest{string service = 1} and HealthCheckResponse{enum status = 1} have the same
  // bytes as these two well-known messages, and gRPC's packages contain no generated code for the
  // originals.
  using Stub =
      grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value>;
  google::protobuf::StringValue request;
  request.set_value(service);
  google::protobuf::Int32Value response;
  grpc::Status status;
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(options_.deadline));
  grpc::CompletionQueue queue;
  const auto call =
      Stub(channel_).PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) {
    return NameProxy(ToAbslStatus(status), proxy_);
  }
  if (response.value() < 0 || response.value() > static_cast<int>(Health::kServiceUnknown)) {
    return absl::DataLossError(
        absl::StrCat("wrong answer from the server: health status ", response.value()));
  }
  return static_cast<Health>(response.value());
}

bool Client::Connected() {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

}  // namespace canopy::client
