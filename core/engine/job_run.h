// One admitted job between its forwards: collects their results, and decides what must run again
// because memory ran out or results are not finite. Host work, but for a head over whole questions.
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

// Used on the device thread once made, but for the const accessors.
class JobRun {
 public:
  enum class Progress {
    kMoreParts,  // the pass has further ones
    kAgain,      // TakePass gives what runs next, in place of what is left of the pass before
    kDone,       // TakeResult gives the result
  };

  // `served_model` must outlive it.
  JobRun(ScoreJob job, const RouteOptions& route, int64_t max_batch_tokens,
         const ServedModel* served_model);

  const PathBatch& batch() const { return *job_.batch; }
  // What forwards are asked for. Scores of a head over whole questions come after all parts, from
  // the endpoints.
  const OutputSelection& part_outputs() const { return parts_job_.outputs; }

  // Which weights answer the job, all parts and reruns of it. Before its first forward, and again
  // as long as that was not launched; from whichever thread then holds the job.
  void Bind(std::shared_ptr<ModelRunner> runner);
  const ServedModel& served_model() const { return served_model_; }
  // Once bound.
  ModelRunner& runner() const { return *runner_; }

  // All of the job at first.
  std::shared_ptr<Pass> TakePass() { return std::move(next_pass_); }

  // What the device made of a forward in which the job has share `share_index`. Where it had no
  // memory, RunSmaller says how the job goes on. Errors as documented at Engine::Submit; the job
  // has then failed.
  absl::StatusOr<Progress> HandleOutput(const Forward& forward, size_t share_index,
                                        const absl::StatusOr<PartOutput>& output, double device_ms);

  // The forward does not fit the device: the job goes on alone if it shared the forward, else in
  // parts of at most half that size, down to single paths, the last of which is tried once more.
  // What it has from other parts it keeps. RESOURCE_EXHAUSTED where that fails too.
  absl::StatusOr<Progress> RunSmaller(const Forward& forward, size_t share_index);
  bool CanRunSmaller(const Forward& forward, size_t share_index) const;

  // times.queue_ms is left at 0.
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
  // The pass that runs. Its plan is set only where a pass before made it.
  Pass pass_;
  std::shared_ptr<Pass> next_pass_;
  // Whether the backend that AUTO picked has failed, so that path runs in its place.
  bool backend_failed_ = false;
  // Whether a forward of the job found too little device memory.
  bool out_of_memory_ = false;
  // The first path of the forward of this pass that could not be cut smaller and runs a second
  // time.
  std::optional<int32_t> tried_again_;
  bool reruns_non_finite_ = false;
  ScoreResult result_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_JOB_RUN_H_
