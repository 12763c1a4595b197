// What the pipeline's own files share: a job on its way, a forward that is planned, and how both
// end.
#ifndef CORE_ENGINE_PIPELINE_STATE_H_
#define CORE_ENGINE_PIPELINE_STATE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stopwatch.h"
#include "core/engine/forward.h"
#include "core/engine/job_run.h"
#include "core/engine/pipeline.h"
#include "core/engine/scheduler.h"
#include "core/engine/types.h"

namespace canopy {

struct Pipeline::Job {
  const JobId id;
  const std::unique_ptr<JobRun> run;
  const Callback done;
  const Stopwatch waiting;
  // Guarded by the pipeline's mutex, but for what the thread that plans builds in a pass.
  std::shared_ptr<Pass> pass;
  std::unique_ptr<Planned> prepared;  // its next part, when a smaller job went before it
  double device_seconds = 0;
  bool launched = false;  // a forward of it was: its weights stay
};

struct Pipeline::Planned {
  Turn turn;
  std::vector<std::shared_ptr<Job>> jobs;
  std::vector<std::shared_ptr<Pass>> passes;  // of each job when it was taken
  Forward forward;
  bool built = false;
};

// Belongs to the thread that waits for it.
struct Pipeline::DeviceWork {
  const std::function<absl::Status()>& run;
  absl::Status status;
  bool done = false;  // guarded by the pipeline's mutex
};

struct Pipeline::Ended {
  std::shared_ptr<Job> job;
  absl::StatusOr<ScoreResult> result;
};

}  // namespace canopy

#endif  // CORE_ENGINE_PIPELINE_STATE_H_
