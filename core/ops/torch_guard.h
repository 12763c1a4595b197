// Converts exceptions to status. Every call of LibTorch from outside core/ops and core/model goes
// through GuardTorch. This header does not include LibTorch.
//
//   RESOURCE_EXHAUSTED  no memory on the device or the host: a smaller batch may succeed
//   UNAVAILABLE         the CUDA context is lost (illegal address, failed launch, device assert):
//                       no further CUDA call of this process succeeds
//   INTERNAL            everything else
//
// Status messages are short and have no stack traces or file names. LibTorch's full text is logged.
#ifndef CORE_OPS_TORCH_GUARD_H_
#define CORE_OPS_TORCH_GUARD_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy {

// Returns the status of the exception being handled. Call it only inside a catch block.
absl::Status StatusOfCurrentException(absl::string_view what);

// Runs `body`, which returns absl::Status or absl::StatusOr. Converts an exception to a status
// whose message starts with `what`, such as "forward".
template <typename Body>
std::invoke_result_t<Body> GuardTorch(absl::string_view what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return StatusOfCurrentException(what);
  }
}

}  // namespace canopy

#endif  // CORE_OPS_TORCH_GUARD_H_
