// canopy.v1.Admin: the operations of operators and trainers on a running server, on a listener of
// its own.
//
//   LoadWeights: gRPC thread checks -> the loading thread loads, warms up, swaps and answers
//
// Only one load runs at a time. Another one is refused at once, with a retry delay. A load ends
// without a swap if its caller leaves, its deadline passes or the server drains.
#ifndef SERVER_RPC_ADMIN_SERVICE_H_
#define SERVER_RPC_ADMIN_SERVICE_H_

#include <atomic>
#include <memory>

#include "canopy/v1/admin.grpc.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "server/rpc/weight_loader.h"
#include "server/rpc/worker_pool.h"

namespace canopy::server {

// Thread-safe. Must outlive the gRPC server that it is registered with. `context` must outlive it.
class AdminService final : public v1::Admin::WithRawCallbackMethod_LoadWeights<v1::Admin::Service> {
 public:
  explicit AdminService(ServiceContext* context);
  ~AdminService() override;

  // Sets the loader. Call it before calls are admitted; the loader must outlive every call.
  void SetLoader(std::unique_ptr<WeightLoader> loader) { loader_ = std::move(loader); }

  grpc::ServerUnaryReactor* LoadWeights(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;

 private:
  friend class LoadCall;

  ServiceContext& context_;
  std::unique_ptr<WeightLoader> loader_;  // used by the loading thread only
  std::atomic<bool> loading_{false};
  std::atomic<bool> draining_{false};
  WorkerPool loads_{1, 0};  // last: it uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_RPC_ADMIN_SERVICE_H_
