// Puts the results of a job's forwards at the places of their paths. Called on the device thread
// only.
#ifndef CORE_ENGINE_RESULT_MERGE_H_
#define CORE_ENGINE_RESULT_MERGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/model_runner.h"
#include "core/engine/types.h"

namespace canopy {

// Makes room for every path's results; what no part fills stays unscored. result.model is set.
void ReserveResults(const ScoreJob& job, ScoreResult& result);

// Checks every size in `part` against the `num_paths` paths of its plan and what was asked for.
// INTERNAL with both numbers where one differs: the runner has a fault.
absl::Status CheckPart(const PartOutput& part, int64_t num_paths, const OutputSelection& outputs,
                       const ModelInfo& model);

// Copies the results of a part's paths from `first_row` on, which may replace earlier ones.
// `request_paths` are the request's indices of these paths, all of them inside the part. The part
// has passed CheckPart with the outputs that room was made for. INTERNAL when a path has another
// number of per-token entries than in the request.
absl::Status MergePart(const PartOutput& part, int32_t first_row,
                       const std::vector<int32_t>& request_paths, ScoreResult& result);

// Adds all outputs to those that a path lacks where its hidden state is not finite. Then gives
// every output that a path lacks NaN in all its places, and -1 for token ids, whatever the runner
// left there.
void BlankUnscored(const OutputSelection& outputs, ScoreResult& result);

}  // namespace canopy

#endif  // CORE_ENGINE_RESULT_MERGE_H_
