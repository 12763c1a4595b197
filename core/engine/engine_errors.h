// The errors that jobs end with, or are refused with.
#ifndef CORE_ENGINE_ENGINE_ERRORS_H_
#define CORE_ENGINE_ENGINE_ERRORS_H_

#include "absl/status/status.h"
#include "core/engine/scheduler.h"

namespace canopy {

// The status of every call after the device was lost.
absl::Status UnhealthyError();
absl::Status DeadlineError();
absl::Status DrainingError();
// The status of a job whose place in a full queue went to another job.
absl::Status DisplacedError();
absl::Status RefusalError(Refusal refusal, const JobRequest& request, const Scheduler& scheduler);

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_ERRORS_H_
