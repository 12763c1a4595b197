#include "server/rpc/score_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status_details.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "server/rpc/call_reactor.h"
#include "server/rpc/model_lookup.h"
#include "server/rpc/score_work.h"
#include "server/rpc/stream_call.h"
#include "server/wire/explain.h"
#include "server/wire/grpc_status.h"
#include "server/wire/message_bytes.h"
#include "server/wire/model_message.h"
#include "server/wire/violations.h"
#include "server/wire/wire_reader.h"

namespace canopy::server {
namespace {

constexpr absl::Duration kExplainRetryDelay = absl::Milliseconds(500);

// One Score call.
class ScoreCall final : public CallReactor {
 public:
  ScoreCall(grpc::CallbackServerContext* call, ServiceContext* context, grpc::ByteBuffer* response)
      : CallReactor(Method::kScore, call, context), response_(*response), work_(context) {}

  // gRPC keeps the reactor until Start returns, even if the call is answered earlier.
  void Start(const grpc::ByteBuffer& bytes) {
    const ServingState* serving = Enter();
    if (serving == nullptr) {
      return;
    }
    const absl::Status started = work_.Start(serving->engine, SingleSlice(bytes), caller(),
                                             [this](absl::StatusOr<grpc::ByteBuffer> answer) {
                                               if (answer.ok()) {
                                                 response_.Swap(&*answer);
                                               }
                                               Answer(answer.status());
                                             });
    if (!started.ok()) {
      Answer(started);
    }
  }

 private:
  void Describe(RequestRecord* record) const override {
    record->request_id = work_.request_id();
    record->scored = work_.observation();
  }
  // gRPC also cancels a call when its deadline passes; the engine distinguishes the two.
  void Abandoned() override { work_.Cancel(); }

  grpc::ByteBuffer& response_;
  ScoreWork work_;
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
      Answer(WithRetryAfter(ErrorFor(ErrorReason::kExplainBusy, "too many Explain calls wait"),
                            kExplainRetryDelay));
    }
  }

 private:
  void Describe(RequestRecord* record) const override {
    record->request_id = FindRequestId(fields_.request);
  }

  absl::Status Prepare() {
    absl::StatusOr<ExplainFields> fields = ReadExplainRequest(ViewOf(message_));
    if (!fields.ok()) {
      return fields.status();
    }
    fields_ = *fields;
    RequestNotes notes;
    absl::StatusOr<PreparedRequest> request = PrepareRequest(
        fields_.request, context().request_limits,
        [this](absl::string_view name) { return FindLoadedModel(*engine_, name); }, &notes);
    context().raw_tokens.Record(caller().client, notes);
    if (!request.ok()) {
      return request.status();
    }
    request_ = *std::move(request);
    return absl::OkStatus();
  }

  // Runs on the explain thread.
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

// A call that is answered on the thread that receives it.
class ModelCall final : public CallReactor {
 public:
  using CallReactor::CallReactor;

  // `respond` makes the response from the request's bytes and the objects that serve it.
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

// Returns the name in a GetModelRequest.
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
                          FindLoadedModel(*serving.engine, name));
  return ModelMessage(*info, serving.limits);
}

// The request has no fields, so all its bytes are unknown fields and ignored.
absl::StatusOr<v1::ListModelsResponse> DescribeModels(absl::string_view /*message*/,
                                                      const ServingState& serving) {
  v1::ListModelsResponse response;
  for (const auto& info : serving.engine->models()) {
    *response.add_models() = ModelMessage(*info, serving.limits);
  }
  return response;
}

}  // namespace

grpc::ServerUnaryReactor* ScoreService::Score(grpc::CallbackServerContext* call,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) {
  auto* reactor = new ScoreCall(call, &context_, response);
  reactor->Start(*request);
  HandOver(reactor);
  return reactor;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ScoreService::ScoreStream(
    grpc::CallbackServerContext* call) {
  return new StreamCall(call, &context_);
}

grpc::ServerUnaryReactor* ScoreService::Explain(grpc::CallbackServerContext* call,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  auto* reactor = new ExplainCall(call, &context_, response);
  reactor->Start(*request);
  HandOver(reactor);
  return reactor;
}

grpc::ServerUnaryReactor* ScoreService::GetModel(grpc::CallbackServerContext* call,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  auto* reactor = new ModelCall(Method::kGetModel, call, &context_);
  reactor->Start(*request, response, DescribeModel);
  HandOver(reactor);
  return reactor;
}

grpc::ServerUnaryReactor* ScoreService::ListModels(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  auto* reactor = new ModelCall(Method::kListModels, call, &context_);
  reactor->Start(*request, response, DescribeModels);
  HandOver(reactor);
  return reactor;
}

}  // namespace canopy::server
