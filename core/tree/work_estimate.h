// Estimates how many tokens the device will compute for a request, before the request is planned.
//
// Admission, fairness and forecasts use this number. It depends only on the request and its route,
// so that equal requests always get the same estimate.
#ifndef CORE_TREE_WORK_ESTIMATE_H_
#define CORE_TREE_WORK_ESTIMATE_H_

#include <cstdint>

#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

struct WorkEstimate {
  int64_t path_tokens = 0;   // paths x longest path
  int64_t input_tokens = 0;  // sum of path lengths
  // The tokens that the device will compute:
  // - path_tokens if the path backend will run: the request names it, or the layers support no
  //   other backend, or the reference policy chooses it (few tokens, padding, the mask budget);
  // - the slots of the forest, padding included, if the reference policy chooses a tree backend;
  // - the unique tokens (trie nodes) on the fused backend and under the measured policy, which
  //   chooses by cost later.
  // Two effects are not counted. If the token budget cuts a question, each further part computes
  // its prefix again; questions that share tokens compute fewer.
  int64_t computed_tokens = 0;
  // The number of trie nodes of the largest question, which is a lower bound for every tree
  // backend. Zero if no trie was counted.
  int64_t largest_question_tokens = 0;
};

// Precondition: the batch and the options are valid. Takes time linear in the number of tokens as
// sent, whatever the order of the paths, and O(paths) temporary memory. Does not read the tokens if
// counts alone choose the path backend.
WorkEstimate EstimateWork(const PathBatch& batch, const RouteOptions& options);

}  // namespace canopy

#endif  // CORE_TREE_WORK_ESTIMATE_H_
