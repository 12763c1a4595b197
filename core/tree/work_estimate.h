// How many tokens the device will compute for a request, before the request is planned.
//
// Admission, fairness and forecasts go by this number. It is a function of the request and its
// route alone, so that equal requests always count the same.
#ifndef CORE_TREE_WORK_ESTIMATE_H_
#define CORE_TREE_WORK_ESTIMATE_H_

#include <cstdint>

#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

struct WorkEstimate {
  int64_t path_tokens = 0;   // paths x longest path
  int64_t input_tokens = 0;  // sum of path lengths
  // Tokens that the device will compute:
  //   - path_tokens where the path backend will run: it is named, or the layers allow no other, or
  //     the reference policy takes it for its counts (few tokens, padding, the mask budget);
  //   - the slots of the forest, padding included, where the reference policy runs one;
  //   - the unique tokens (trie nodes) on the fused backend and under the measured policy, which
  //     chooses by cost later.
  // Forwards that the token budget cuts compute the prefix of a question that is cut once more for
  // each further part, and questions that share tokens compute fewer. Both are not counted.
  int64_t computed_tokens = 0;
  // The trie nodes of the largest question: no tree backend computes fewer tokens. Zero where no
  // trie was counted.
  int64_t largest_question_tokens = 0;
};

// Takes a valid batch and valid options. Linear in the tokens as sent, in any order of paths: the
// same comparison with the path before that builds the trie. O(paths) memory for the time of the
// call, and no pass over the tokens at all where the path backend runs by its counts.
WorkEstimate EstimateWork(const PathBatch& batch, const RouteOptions& options);

}  // namespace canopy

#endif  // CORE_TREE_WORK_ESTIMATE_H_
