// canopy.v1.Scorer: decodes requests, passes checked jobs to the engine, and encodes answers.
//
//   Score, and each request of a ScoreStream (stream_call):
//            gRPC thread decodes and submits -> engine runs -> an encoding thread encodes and
//            finishes the call
//   Explain: gRPC thread decodes -> explain thread plans, draws and finishes the call
//
// Requests arrive as bytes (gRPC's raw methods), so that limits are enforced before memory is
// allocated, and so that Canopy itself answers malformed bytes.
#ifndef SERVER_RPC_SCORE_SERVICE_H_
#define SERVER_RPC_SCORE_SERVICE_H_

#include "canopy/v1/scorer.grpc.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"

namespace canopy::server {

using ScorerCallbacks =
    v1::Scorer::WithRawCallbackMethod_Score<v1::Scorer::WithRawCallbackMethod_ScoreStream<
        v1::Scorer::WithRawCallbackMethod_Explain<v1::Scorer::WithRawCallbackMethod_GetModel<
            v1::Scorer::WithRawCallbackMethod_ListModels<v1::Scorer::Service>>>>>;

// Thread-safe. Must outlive the gRPC server that it is registered with. `context` must outlive it.
class ScoreService final : public ScorerCallbacks {
 public:
  explicit ScoreService(ServiceContext* context) : context_(*context) {}

  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* call,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ScoreStream(
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

#endif  // SERVER_RPC_SCORE_SERVICE_H_
