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

// Copies the results of a part's paths from `first_row` on, which may replace earlier ones.
// `request_paths` are the request's indices of these paths. INTERNAL when the part's lists are not
// those of its paths.
absl::Status MergePart(const PartOutput& part, int32_t first_row,
                       const std::vector<int32_t>& request_paths, ScoreResult& result);

// Gives every path that stayed unscored NaN in all its places, and -1 for token ids, whatever the
// runner left there.
void BlankUnscored(const OutputSelection& outputs, ScoreResult& result);

}  // namespace canopy

#endif  // CORE_ENGINE_RESULT_MERGE_H_
