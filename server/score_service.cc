#include "server/score_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/base/stopwatch.h"
#include "google/protobuf/message_lite.h"
#include "server/call_reactor.h"
#include "server/explain.h"
#include "server/grpc_status.h"
#include "server/model_message.h"
#include "server/response_encoder.h"
#include "server/violations.h"
#include "server/wire_reader.h"

namespace canopy::server {
namespace {

// Plans hold memory while they wait: a few are as many as people look at.
constexpr size_t kMaxWaitingExplains = 16;
constexpr absl::Duration kExplainRetryDelay = absl::Milliseconds(500);

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<std::shared_ptr<const ModelInfo>> FindModel(const Engine& engine,
                                                           absl::string_view name) {
  std::shared_ptr<const ModelInfo> model = engine.FindModel(name);
  if (model == nullptr) {
    std::vector<std::string> loaded;
    for (const auto& info : engine.models()) {
      loaded.push_back(info->name);
    }
    return UnknownModelError(name, loaded);
  }
  return model;
}

// One Score call.
class ScoreCall final : public CallReactor {
 public:
  ScoreCall(grpc::CallbackServerContext* call, ServiceContext* context, grpc::ByteBuffer* response)
      : CallReactor(Method::kScore, call, context), response_(*response) {}

  void Start(const grpc::ByteBuffer& bytes) {
    const ServingState* serving = Enter();
    if (serving == nullptr) {
      return;
    }
    Engine* engine = serving->engine;
    message_ = SingleSlice(bytes);
    absl::StatusOr<PreparedRequest> request =
        PrepareRequest(ViewOf(message_), context().request_limits,
                       [engine](absl::string_view name) { return FindModel(*engine, name); });
    if (!request.ok()) {
      Answer(request.status());
      return;
    }
    request_ = *std::move(request);
    times_.decode_ms = times_.total.ElapsedMs();

    ScoreJob job = request_.job;
    job.deadline = Deadline();
    // gRPC cancels a call whose deadline passes; the engine tells the two apart.
    job.cancelled = [this, deadline = job.deadline] {
      return cancelled() && std::chrono::steady_clock::now() < deadline;
    };
    const absl::Status submitted =
        engine->Submit(std::move(job),
                       [this](absl::StatusOr<ScoreResult> result) { Complete(std::move(result)); });
    if (!submitted.ok()) {
      Answer(submitted);
    }
  }

 private:
  // On the device thread, which must not wait for encoding.
  void Complete(absl::StatusOr<ScoreResult> result) {
    result_ = std::move(result);
    // Cannot be refused: any number may wait, since each holds a place among admitted calls.
    (void)context().completions.Schedule([this] { Encode(); });
  }

  void Encode() {
    if (!result_.ok()) {
      Answer(result_.status());
      return;
    }
    ScoreResult& result = *result_;
    ScoreObservation observation;
    observation.counts = result.counts;
    observation.route = result.route;
    observation.computed_tokens = result.computed_tokens;
    observation.paths = static_cast<int64_t>(result.finite.size());
    observation.decode_ms = times_.decode_ms;
    observation.stages = result.times;
    EncodedResponse encoded =
        EncodeScoreResponse({ViewOf(message_), request_, times_}, std::move(result));
    observation.unscored_paths = encoded.unscored_paths;
    observation.encode_ms = encoded.encode_ms;
    observation.total_ms = encoded.total_ms;
    context().metrics.Observe(observation);
    response_.Swap(&encoded.bytes);
    Answer(absl::OkStatus());
  }

  RequestTimes times_;
  grpc::Slice message_;
  PreparedRequest request_;
  absl::StatusOr<ScoreResult> result_;
  grpc::ByteBuffer& response_;
};

// One Explain call.
class ExplainCall final : public CallReactor {
 public:
  ExplainCall(grpc::CallbackServerContext* call, ServiceContext* context,
              grpc::ByteBuffer* response)
      : CallReactor(Method::kExplain, call, context), response_(*response) {}

  void Start(const grpc::ByteBuffer& bytes) {
    const ServingState* serving = Enter();
    if (serving == nullptr) {
      return;
    }
    engine_ = serving->engine;
    message_ = SingleSlice(bytes);
    if (const absl::Status prepared = Prepare(); !prepared.ok()) {
      Answer(prepared);
      return;
    }
    if (!context().explains.Schedule([this] { Run(); })) {
      Answer(WithRetryAfter(absl::ResourceExhaustedError("too many Explain calls wait"),
                            kExplainRetryDelay));
    }
  }

 private:
  absl::Status Prepare() {
    absl::StatusOr<ExplainFields> fields = ReadExplainRequest(ViewOf(message_));
    if (!fields.ok()) {
      return fields.status();
    }
    fields_ = *fields;
    absl::StatusOr<PreparedRequest> request =
        PrepareRequest(fields_.request, context().request_limits,
                       [this](absl::string_view name) { return FindModel(*engine_, name); });
    if (!request.ok()) {
      return request.status();
    }
    request_ = *std::move(request);
    return absl::OkStatus();
  }

  // On the explain thread.
  void Run() {
    if (cancelled()) {
      Answer(absl::CancelledError("the caller is gone"));
      return;
    }
    const absl::StatusOr<v1::ExplainResponse> explained =
        ExplainRequest(fields_, request_, *engine_);
    if (explained.ok()) {
      response_ = ToByteBuffer(*explained);
    }
    Answer(explained.status());
  }

  const Engine* engine_ = nullptr;
  grpc::Slice message_;
  ExplainFields fields_;
  PreparedRequest request_;
  grpc::ByteBuffer& response_;
};

// A call that is answered where it comes in.
class ModelCall final : public CallReactor {
 public:
  using CallReactor::CallReactor;

  // `respond` turns the request's bytes and what serves them into the response.
  template <typename Respond>
  void Start(const grpc::ByteBuffer& bytes, grpc::ByteBuffer* response, const Respond& respond) {
    const ServingState* serving = Enter();
    if (serving == nullptr) {
      return;
    }
    const grpc::Slice message = SingleSlice(bytes);
    const auto answer = respond(ViewOf(message), *serving);
    if (answer.ok()) {
      *response = ToByteBuffer(*answer);
    }
    Answer(answer.status());
  }
};

// The name in a GetModelRequest.
absl::StatusOr<absl::string_view> ReadModelName(absl::string_view message) {
  absl::string_view name;
  WireReader reader(message);
  bool is_text = true;
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(v1::GetModelRequest::kNameFieldNumber)) {
      name = field.bytes;
      is_text = is_text && IsValidUtf8(name);
    }
  }
  if (reader.malformed() || !is_text) {
    Violations violations;
    violations.Add("GetModelRequest", "the bytes are not a canopy.v1.GetModelRequest");
    return violations.ToStatus();
  }
  return name;
}

absl::StatusOr<v1::Model> DescribeModel(absl::string_view message, const ServingState& serving) {
  CANOPY_ASSIGN_OR_RETURN(const absl::string_view name, ReadModelName(message));
  CANOPY_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelInfo> info,
                          FindModel(*serving.engine, name));
  return ModelMessage(*info, serving.limits);
}

// The request holds nothing: whatever its bytes are, they are fields to ignore.
absl::StatusOr<v1::ListModelsResponse> DescribeModels(absl::string_view /*message*/,
                                                      const ServingState& serving) {
  v1::ListModelsResponse response;
  for (const auto& info : serving.engine->models()) {
    *response.add_models() = ModelMessage(*info, serving.limits);
  }
  return response;
}

// A stream that is refused when it opens.
class UnbuiltStream final : public grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse> {
 public:
  explicit UnbuiltStream(Metrics* metrics) {
    metrics->CallStarted(Method::kScoreStream);
    metrics->CallFinished(Method::kScoreStream, grpc::StatusCode::UNIMPLEMENTED);
    Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "ScoreStream: not built yet"));
  }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

ServiceContext::ServiceContext(const RequestLimits& request_limits, CallGate* gate,
                               Metrics* metrics)
    : request_limits(request_limits),
      gate(*gate),
      metrics(*metrics),
      completions(0),
      explains(kMaxWaitingExplains) {}

grpc::ServerUnaryReactor* ScoreService::Score(grpc::CallbackServerContext* call,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) {
  auto* reactor = new ScoreCall(call, &context_, response);
  reactor->Start(*request);
  return reactor;
}

grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* ScoreService::ScoreStream(
    grpc::CallbackServerContext* /*call*/) {
  return new UnbuiltStream(&context_.metrics);
}

grpc::ServerUnaryReactor* ScoreService::Explain(grpc::CallbackServerContext* call,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  auto* reactor = new ExplainCall(call, &context_, response);
  reactor->Start(*request);
  return reactor;
}

grpc::ServerUnaryReactor* ScoreService::GetModel(grpc::CallbackServerContext* call,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  auto* reactor = new ModelCall(Method::kGetModel, call, &context_);
  reactor->Start(*request, response, DescribeModel);
  return reactor;
}

grpc::ServerUnaryReactor* ScoreService::ListModels(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  auto* reactor = new ModelCall(Method::kListModels, call, &context_);
  reactor->Start(*request, response, DescribeModels);
  return reactor;
}

}  // namespace canopy::server
