#include "core/tree/route.h"

namespace canopy {

absl::string_view PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kReference:
      return "reference";
    case Policy::kMeasured:
      return "measured";
  }
  return "unknown";
}

absl::string_view BackendName(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kDense:
      return "dense";
    case Backend::kSegmented:
      return "segmented";
    case Backend::kPath:
      return "path";
    case Backend::kFused:
      return "fused";
  }
  return "unknown";
}

absl::string_view LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kNone:
      return "";
    case Layout::kPadded:
      return "padded";
    case Layout::kFlat:
      return "flat";
  }
  return "unknown";
}

absl::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kSmallBatch:
      return "small_batch";
    case Reason::kMaskBudget:
      return "mask_budget";
    case Reason::kPaddingOverhead:
      return "padding_overhead";
    case Reason::kRequested:
      return "requested";
    case Reason::kMeasured:
      return "measured";
    case Reason::kUnsupportedLayers:
      return "unsupported_layers";
    case Reason::kBackendFailed:
      return "backend_failed";
    case Reason::kOutOfMemory:
      return "out_of_memory";
    case Reason::kNonFiniteRerun:
      return "non_finite_rerun";
  }
  return "unknown";
}

}  // namespace canopy
