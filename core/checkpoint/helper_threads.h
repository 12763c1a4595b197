// Starts threads that do a part of the calling thread's work.
#ifndef CORE_CHECKPOINT_HELPER_THREADS_H_
#define CORE_CHECKPOINT_HELPER_THREADS_H_

#include <functional>
#include <future>
#include <optional>

#include "absl/status/status.h"

namespace canopy {

// Runs `work` on a new thread. Returns nullopt without running `work` if the system cannot start a
// thread, for example because of a limit on processes. The caller then does the work itself.
std::optional<std::future<absl::Status>> StartHelper(std::function<absl::Status()> work);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_HELPER_THREADS_H_
