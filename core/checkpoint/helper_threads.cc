#include "core/checkpoint/helper_threads.h"

#include <system_error>
#include <utility>

namespace canopy {

std::optional<std::future<absl::Status>> StartHelper(std::function<absl::Status()> work) {
  try {
    return std::async(std::launch::async, std::move(work));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace canopy
