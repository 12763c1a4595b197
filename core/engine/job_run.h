// One admitted job between its forwards. Collects their results and decides which paths must run
// again because memory ran out or results are not finite. All work is on the host, except for a
// head over whole questions.
#ifndef CORE_ENGINE_JOB_RUN_H_
#define CORE_ENGINE_JOB_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/forward.h"
#include "core/engine/model_runner.h"
#include "core/engine/served_model.h"
#include "core/engine/types.h"
#include "core/tree/route.h"

namespace canopy {

// After construction, used on the device thread only, except for the const accessors.
class JobRun {
 public:
  enum class Progress {
    kMoreParts,  // the pass has further parts
    kAgain,  // TakePass returns the pass that runs next, instead of the rest of the previous one
    kDone,   // TakeResult returns the result
  };

  // `served_model` must outlive the object.
  JobRun(ScoreJob job, const RouteOptions& route, int64_t max_batch_tokens,
         const ServedModel* served_model);

  const PathBatch& batch() const { return *job_.batch; }
  // Returns the outputs that each forward computes. Scores of a head over whole questions are not
  // among them: Decide computes them from the endpoints after all parts.
  const OutputSelection& part_outputs() const { return parts_job_.outputs; }

  // Sets the weights that answer the job in all parts and reruns. Call it before the first forward;
  // it may be called again until that forward is launched. The thread that holds the job calls it.
  void Bind(std::shared_ptr<ModelRunner> runner);
  const ServedModel& served_model() const { return served_model_; }
  // Precondition: Bind was called.
  ModelRunner& runner() const { return *runner_; }

  // Returns the pass that runs next; the first one contains the whole job.
  std::shared_ptr<Pass> TakePass() { return std::move(next_pass_); }

  // Handles the output of a forward in which the job has share `share_index`. If the device had too
  // little memory, the result is that of RunSmaller. On an error, which is one of those of
  // Engine::Submit, the job has failed.
  absl::StatusOr<Progress> HandleOutput(const Forward& forward, size_t share_index,
                                        const absl::StatusOr<PartOutput>& output, double device_ms);

  // Plans the job again after a forward that did not fit the device. A job that shared the forward
  // runs alone. A job that ran alone runs in parts of at most half that size, down to single paths;
  // a single path is tried once more. Results of other parts are kept. Returns RESOURCE_EXHAUSTED
  // if the last attempt has failed.
  absl::StatusOr<Progress> RunSmaller(const Forward& forward, size_t share_index);
  bool CanRunSmaller(const Forward& forward, size_t share_index) const;

  // Returns the result. times.queue_ms is 0.
  ScoreResult TakeResult() { return std::move(result_); }

 private:
  bool HasDecision() const;
  absl::Status Decide();
  absl::StatusOr<Progress> EndPass(const ForwardShare& share);
  void StartPass();
  void RestartOn(Backend backend);

  const ScoreJob job_;
  ScoreJob parts_job_;
  const int64_t max_batch_tokens_;
  const ServedModel& served_model_;
  std::shared_ptr<ModelRunner> runner_;  // null before Bind
  // The running pass. Its plan is set only if a previous pass made one.
  Pass pass_;
  std::shared_ptr<Pass> next_pass_;
  // True if the backend that AUTO picked has failed, so that the path backend runs instead.
  bool backend_failed_ = false;
  // True if a forward of the job ran out of device memory.
  bool out_of_memory_ = false;
  // The first path of the forward of this pass that could not be cut smaller and is tried a second
  // time.
  std::optional<int32_t> tried_again_;
  bool reruns_non_finite_ = false;
  ScoreResult result_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_JOB_RUN_H_
