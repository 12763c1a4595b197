// Which calls are let in: none while models load or the server drains, and how many are inside.
#ifndef SERVER_RPC_CALL_GATE_H_
#define SERVER_RPC_CALL_GATE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "core/engine/engine.h"
#include "server/wire/model_message.h"

namespace canopy::server {

// What serves calls once models are loaded.
struct ServingState {
  Engine* engine = nullptr;
  LimitMap limits;  // in force, for GetModel
};

// What a call ends with that a drain does not let in.
absl::Status DrainingError();

// Loading when made. Thread-safe.
class CallGate {
 public:
  // Lets calls in. Once; the engine must outlive every call.
  void Open(ServingState state) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets no further call in. Final. Calls the watchers.
  void StartDraining() ABSL_LOCKS_EXCLUDED(mutex_);

  // `drain` is called once when draining starts, or at once if it has; not after RemoveDrainWatcher
  // has returned. It must not call this object.
  void AddDrainWatcher(const void* watcher, const std::function<void()>& drain)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveDrainWatcher(const void* watcher) ABSL_LOCKS_EXCLUDED(mutex_);

  // A call comes in: what to use, valid as long as this object, or UNAVAILABLE. Each success needs
  // one Leave.
  absl::StatusOr<const ServingState*> Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until no call is inside; false when one still is after `timeout`.
  bool AwaitIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  std::unique_ptr<const ServingState> state_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<const void*, std::function<void()>> drain_watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy::server

#endif  // SERVER_RPC_CALL_GATE_H_
