// The standard gRPC health service on every listener: '' is liveness, "canopy.v1.Scorer" readiness.
#ifndef SERVER_RPC_HEALTH_H_
#define SERVER_RPC_HEALTH_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpcpp/server.h"

namespace canopy::server {

// Live and not ready when made. Thread-safe.
class Health {
 public:
  // Call before a server is built: gives it gRPC's health service.
  static void Enable();

  // Keeps `server`'s health service up to date; `server` must outlive this object.
  void Add(grpc::Server* server) ABSL_LOCKS_EXCLUDED(mutex_);

  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mutex_);
  // Neither live nor ready again: the process should be restarted.
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
