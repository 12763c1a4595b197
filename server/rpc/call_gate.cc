#include "server/rpc/call_gate.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status_details.h"

namespace canopy::server {

absl::Status DrainingError() {
  return ErrorFor(ErrorReason::kDraining, "this server is shutting down");
}

void CallGate::Open(ServingState state) {
  MutexLock lock(&mutex_);
  state_ = std::make_unique<const ServingState>(std::move(state));
}

void CallGate::StartDraining() {
  MutexLock lock(&mutex_);
  if (!draining_) {
    draining_ = true;
    for (const auto& [watcher, drain] : drain_watchers_) {
      drain();
    }
  }
}

void CallGate::AddDrainWatcher(const void* watcher, const std::function<void()>& drain) {
  MutexLock lock(&mutex_);
  if (draining_) {
    drain();
  }
  drain_watchers_.emplace(watcher, drain);
}

void CallGate::RemoveDrainWatcher(const void* watcher) {
  MutexLock lock(&mutex_);
  drain_watchers_.erase(watcher);
}

absl::StatusOr<const ServingState*> CallGate::Enter() {
  MutexLock lock(&mutex_);
  if (draining_) {
    return DrainingError();
  }
  if (state_ == nullptr) {
    return ErrorFor(ErrorReason::kLoading, "this server is still loading its models");
  }
  ++inside_;
  return state_.get();
}

void CallGate::Leave() {
  MutexLock lock(&mutex_);
  --inside_;
}

bool CallGate::AwaitIdle(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(Condition(
                                     +[](int64_t* inside) { return *inside == 0; }, &inside_),
                                 timeout);
}

}  // namespace canopy::server
