#include "server/rpc/health.h"

#include "grpcpp/health_check_service_interface.h"

namespace canopy::server {
namespace {

constexpr char kReadiness[] = "canopy.v1.Scorer";

}  // namespace

void Health::Enable() { grpc::EnableDefaultHealthCheckService(true); }

void Health::Add(grpc::Server* server) {
  MutexLock lock(&mutex_);
  servers_.push_back(server);
  Publish();
}

void Health::SetReady(bool ready) {
  MutexLock lock(&mutex_);
  ready_ = ready;
  Publish();
}

void Health::SetDead() {
  MutexLock lock(&mutex_);
  live_ = false;
  Publish();
}

void Health::Publish() {
  for (grpc::Server* server : servers_) {
    grpc::HealthCheckServiceInterface* service = server->GetHealthCheckService();
    service->SetServingStatus("", live_);
    service->SetServingStatus(kReadiness, live_ && ready_);
  }
}

}  // namespace canopy::server
