// The one wall where exceptions become status: every call into LibTorch from outside core/ops and
// core/model goes through GuardTorch. The header is free of LibTorch.
//
//   RESOURCE_EXHAUSTED  no memory on the device or the host: a smaller batch may work
//   UNAVAILABLE         the CUDA context is lost (illegal address, failed launch, device assert):
//                       nothing works in this process any more
//   INTERNAL            everything else
//
// Status text is short and has no traces or file names; LibTorch's full text goes to the log.
#ifndef CORE_OPS_TORCH_GUARD_H_
#define CORE_OPS_TORCH_GUARD_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy {

// The status of the exception being handled; call inside a catch block only.
absl::Status StatusOfCurrentException(absl::string_view what);

// Runs `body`, which returns absl::Status or absl::StatusOr, and turns what it throws into a status
// whose text starts with `what`, such as "forward".
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
