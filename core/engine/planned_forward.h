// The data that the engine's threads hand to each other: an admitted job, and a forward on its way
// from the scheduler to the device.
#ifndef CORE_ENGINE_PLANNED_FORWARD_H_
#define CORE_ENGINE_PLANNED_FORWARD_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stopwatch.h"
#include "core/engine/forward.h"
#include "core/engine/job_run.h"
#include "core/engine/scheduler.h"
#include "core/engine/types.h"

namespace canopy {

struct PlannedForward;

// A job from its admission until it is answered. ForwardStates changes `pass`, `kept_part` and
// `launched` under the engine's mutex; the thread that builds a forward also advances its passes.
struct AdmittedJob {
  JobId id = 0;
  std::unique_ptr<JobRun> run;
  std::function<void(absl::StatusOr<ScoreResult>)> done;
  Stopwatch waiting;
  std::shared_ptr<Pass> pass;
  // The job's next part if it was built before a smaller job went first; else null.
  std::unique_ptr<PlannedForward> kept_part;
  double device_seconds = 0;
  bool launched = false;  // a forward of the job was launched, so its weights are fixed
};

// One forward: built by a planning thread, then run by the device thread.
struct PlannedForward {
  ScheduledBatch batch;
  std::vector<std::shared_ptr<AdmittedJob>> jobs;
  std::vector<std::shared_ptr<Pass>> passes;  // each job's pass when the batch was taken
  Forward forward;
  bool built = false;  // `forward` is complete
};

}  // namespace canopy

#endif  // CORE_ENGINE_PLANNED_FORWARD_H_
