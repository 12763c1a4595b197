// Threads that take a part of some work off the calling thread.
#ifndef CORE_CHECKPOINT_HELPER_THREADS_H_
#define CORE_CHECKPOINT_HELPER_THREADS_H_

#include <functional>
#include <future>
#include <optional>

#include "absl/status/status.h"

namespace canopy {

// Runs `work` on a new thread. Returns nothing, and runs nothing, if the system gives no thread, as
// under a small limit of processes: the caller does the work itself.
std::optional<std::future<absl::Status>> StartHelper(std::function<absl::Status()> work);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_HELPER_THREADS_H_
