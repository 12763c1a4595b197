// Admits calls, except while models load or the server drains, and counts the calls in progress.
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

// The objects that serve calls after the models are loaded.
struct ServingState {
  Engine* engine = nullptr;
  LimitMap limits;  // the limits in force, for GetModel
};

// The status returned to calls that arrive while the server drains.
absl::Status DrainingError();

// A gate starts in the loading state, in which it admits no call. Thread-safe.
class CallGate {
 public:
  // Admits calls from now on. Call it once; the engine must outlive every call.
  void Open(ServingState state) ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops admitting calls, for good, and calls the watchers.
  void StartDraining() ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `drain` once when draining starts, or at once if it has started, but never after
  // RemoveDrainWatcher has returned. `drain` must not call this object.
  void AddDrainWatcher(const void* watcher, const std::function<void()>& drain)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveDrainWatcher(const void* watcher) ABSL_LOCKS_EXCLUDED(mutex_);

  // Admits a call. Returns the objects that serve it, which are valid as long as the gate, or
  // UNAVAILABLE. Each success needs one Leave.
  absl::StatusOr<const ServingState*> Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until no call is in progress. Returns false if one still is after `timeout`.
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
