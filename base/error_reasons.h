// The reasons of errors that programs can distinguish: their names on the wire, in metrics, in logs
// and in docs/OPERATING.md, and the status code of each.
#ifndef BASE_ERROR_REASONS_H_
#define BASE_ERROR_REASONS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/enum_table.h"

namespace canopy {

enum class ErrorReason {
  // These reasons are about the request: this server cannot answer it in this form.
  kBackendUnavailable,
  kPolicyUnavailable,
  kModelVersionUnavailable,
  kVocabularyMismatch,
  kPathTooLargeForDevice,
  kQuestionTooLargeForDevice,
  kNoMemoryForWeights,
  // These reasons are about the load: a retry may succeed.
  kQueueFull,
  kQueueTokensFull,
  kDeadlineTooShort,
  kDisplaced,
  kExplainBusy,
  kLoadBusy,
  kMemoryFull,
  // These reasons are about the state of the server.
  kLoading,
  kDraining,
  kDeviceLost,
};

struct ErrorReasonRow {
  ErrorReason value;
  absl::string_view name;
  absl::StatusCode code;
};

inline constexpr ErrorReasonRow kErrorReasons[] = {
    {ErrorReason::kBackendUnavailable, "BACKEND_UNAVAILABLE",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kPolicyUnavailable, "POLICY_UNAVAILABLE", absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kModelVersionUnavailable, "MODEL_VERSION_UNAVAILABLE",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kVocabularyMismatch, "VOCABULARY_MISMATCH",
     absl::StatusCode::kFailedPrecondition},
    {ErrorReason::kPathTooLargeForDevice, "PATH_TOO_LARGE_FOR_DEVICE",
     absl::StatusCode::kResourceExhausted},
    {ErrorReason::kQuestionTooLargeForDevice, "QUESTION_TOO_LARGE_FOR_DEVICE",
     absl::StatusCode::kResourceExhausted},
    {ErrorReason::kNoMemoryForWeights, "NO_MEMORY_FOR_WEIGHTS",
     absl::StatusCode::kResourceExhausted},
    {ErrorReason::kQueueFull, "QUEUE_FULL", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kQueueTokensFull, "QUEUE_TOKENS_FULL", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kDeadlineTooShort, "DEADLINE_TOO_SHORT", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kDisplaced, "DISPLACED", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kExplainBusy, "EXPLAIN_BUSY", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kLoadBusy, "LOAD_BUSY", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kMemoryFull, "MEMORY_FULL", absl::StatusCode::kResourceExhausted},
    {ErrorReason::kLoading, "LOADING", absl::StatusCode::kUnavailable},
    {ErrorReason::kDraining, "DRAINING", absl::StatusCode::kUnavailable},
    {ErrorReason::kDeviceLost, "DEVICE_LOST", absl::StatusCode::kUnavailable},
};

static_assert(IsEnumTable(kErrorReasons, ErrorReason::kDeviceLost));

}  // namespace canopy

#endif  // BASE_ERROR_REASONS_H_
