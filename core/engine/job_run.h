// Runs one admitted job on the device: planning, parts, halving when memory runs out, and the rerun
// of questions that are not finite. Called on the device thread only.
#ifndef CORE_ENGINE_JOB_RUN_H_
#define CORE_ENGINE_JOB_RUN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/model_runner.h"
#include "core/engine/types.h"
#include "core/tree/route.h"

namespace canopy {

// OK while the job is still wanted; DEADLINE_EXCEEDED or CANCELLED.
absl::Status CheckWanted(const ScoreJob& job);

// Runs `job` on `runner`. times.queue_ms is left at 0. Errors as documented at Engine::Submit.
absl::StatusOr<ScoreResult> RunJob(const ScoreJob& job, const RouteOptions& route,
                                   int64_t max_batch_tokens, ModelRunner& runner);

}  // namespace canopy

#endif  // CORE_ENGINE_JOB_RUN_H_
