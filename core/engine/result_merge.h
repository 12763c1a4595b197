// Copies the results of a job's forwards to the positions of their paths. Runs on the device thread
// only.
#ifndef CORE_ENGINE_RESULT_MERGE_H_
#define CORE_ENGINE_RESULT_MERGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/model_runner.h"
#include "core/engine/types.h"

namespace canopy {

// Allocates the results of all paths, with `finite` 0. A path that no part fills is unscored after
// BlankUnscored. Precondition: result.model is set.
void ReserveResults(const ScoreJob& job, ScoreResult& result);

// Checks the sizes and offsets in `part` against the `num_paths` paths of its plan and the
// requested outputs. Returns INTERNAL, with both numbers, at the first difference, which is a bug
// of the runner.
absl::Status CheckPart(const PartOutput& part, int64_t num_paths, const OutputSelection& outputs,
                       const ModelInfo& model);

// Copies the results of the paths in a part from `first_row` on; they may replace earlier results.
// `request_paths` are the indices of these paths in the request. Preconditions: the part has passed
// CheckPart, and ReserveResults was called for the same outputs. Returns INTERNAL if the part has
// too few paths, or if a path has a different number of per-token entries than in the request.
absl::Status MergePart(const PartOutput& part, int32_t first_row,
                       const std::vector<int32_t>& request_paths, ScoreResult& result);

// Determines the requested outputs that each path lacks: all of them if its last hidden state is
// not finite, and otherwise those that the runner named. Overwrites each missing output with NaN,
// or with -1 for token ids, whatever the runner returned. Clears inner_finite.
void BlankUnscored(const OutputSelection& outputs, ScoreResult& result);

}  // namespace canopy

#endif  // CORE_ENGINE_RESULT_MERGE_H_
