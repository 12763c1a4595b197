// canopy.v1.Scorer: bytes in, checked job to the engine, bytes out.
//
//   Score:   gRPC thread decodes and submits -> device thread runs -> completion thread encodes and
//            finishes the call
//   Explain: gRPC thread decodes -> explain thread plans, draws and finishes the call
//
// Requests are taken as bytes (gRPC's raw methods), so that limits are enforced before memory is
// taken, and malformed bytes get an answer of ours.
#ifndef SERVER_SCORE_SERVICE_H_
#define SERVER_SCORE_SERVICE_H_

#include "canopy/v1/scorer.grpc.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/call_gate.h"
#include "server/metrics.h"
#include "server/request_validator.h"
#include "server/worker_thread.h"

namespace canopy::server {

// What every call uses. The threads are last, so that they end first.
struct ServiceContext {
  ServiceContext(const RequestLimits& request_limits, CallGate* gate, Metrics* metrics);

  const RequestLimits request_limits;
  CallGate& gate;
  Metrics& metrics;
  WorkerThread completions;
  WorkerThread explains;
};

using ScorerCallbacks =
    v1::Scorer::WithRawCallbackMethod_Score<v1::Scorer::WithCallbackMethod_ScoreStream<
        v1::Scorer::WithRawCallbackMethod_Explain<v1::Scorer::WithRawCallbackMethod_GetModel<
            v1::Scorer::WithRawCallbackMethod_ListModels<v1::Scorer::Service>>>>>;

// Thread-safe. Outlives the gRPC server that it is registered with; `context` outlives it.
class ScoreService final : public ScorerCallbacks {
 public:
  explicit ScoreService(ServiceContext* context) : context_(*context) {}

  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* call,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  // Not built yet: UNIMPLEMENTED.
  grpc::ServerBidiReactor<v1::ScoreRequest, v1::ScoreResponse>* ScoreStream(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  ServiceContext& context_;
};

}  // namespace canopy::server

#endif  // SERVER_SCORE_SERVICE_H_
