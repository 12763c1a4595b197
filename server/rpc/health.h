// The standard gRPC health service on every listener: '' is liveness, "canopy.v1.Scorer" readiness.
#ifndef SERVER_RPC_HEALTH_H_
#define SERVER_RPC_HEALTH_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpcpp/server.h"

namespace canopy::server {

// A new object is live and not ready. Thread-safe.
class Health {
 public:
  // Adds gRPC's health service to servers. Call it before a server is built.
  static void Enable();

  // Keeps the health service of `server` up to date. `server` must outlive this object.
  void Add(grpc::Server* server) ABSL_LOCKS_EXCLUDED(mutex_);

  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the process neither live nor ready, for good, so that it is restarted.
  void SetDead() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<grpc::Server*> servers_ ABSL_GUARDED_BY(mutex_);
  bool live_ ABSL_GUARDED_BY(mutex_) = true;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_HEALTH_H_
