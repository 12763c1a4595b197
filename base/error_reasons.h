// Every reason that WithErrorReason names: programs, metrics and docs/OPERATING.md know no other.
#ifndef BASE_ERROR_REASONS_H_
#define BASE_ERROR_REASONS_H_

#include "absl/strings/string_view.h"

namespace canopy {

inline constexpr absl::string_view kErrorReasons[] = {
    // The request, as it is, has no answer here.
    "BACKEND_UNAVAILABLE",
    "POLICY_UNAVAILABLE",
    "MODEL_VERSION_UNAVAILABLE",
    "VOCABULARY_MISMATCH",
    "PATH_TOO_LARGE_FOR_DEVICE",
    "QUESTION_TOO_LARGE_FOR_DEVICE",
    "NO_MEMORY_FOR_WEIGHTS",
    // Too much at once: a later try may succeed.
    "QUEUE_FULL",
    "QUEUE_TOKENS_FULL",
    "DEADLINE_TOO_SHORT",
    "DISPLACED",
    "EXPLAIN_BUSY",
    "LOAD_BUSY",
    "MEMORY_FULL",
    // The server.
    "LOADING",
    "DRAINING",
    "DEVICE_LOST",
};

}  // namespace canopy

#endif  // BASE_ERROR_REASONS_H_
