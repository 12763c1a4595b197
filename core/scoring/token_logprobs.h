// The head of a language model: hidden states -> log-probabilities and ranks of tokens, entropy,
// the range of the logits and the most likely tokens. Logits exist for a chunk of rows at a time,
// whatever the batch, and are read once where our kernels run; on Hopper, unless tokens are
// compared, they never leave the product's registers.
#ifndef CORE_SCORING_TOKEN_LOGPROBS_H_
#define CORE_SCORING_TOKEN_LOGPROBS_H_

#include <cstdint>
#include <iterator>

#include "ATen/core/Tensor.h"
#include "core/ops/logit_ops.h"
#include "core/scoring/output_rows.h"
#include "core/tree/outputs.h"

namespace canopy {

// Outputs that need another head are ignored. top_logprobs is at most the vocabulary.
struct DistributionOptions : OutputSelection {
  // What the logits of a chunk and all that is made of them may take; a chunk has at least one row.
  // Leaves room below 1 GiB for the library's own scratch memory.
  int64_t workspace_bytes = int64_t{768} << 20;
};

// On the device of the hidden states; undefined where not asked for.
struct DistributionResults {
  at::Tensor logprobs;      // [targets] float32
  at::Tensor entropy;       // [distributions] float32, in nats
  at::Tensor min_logit;     // [distributions] float32, raw
  at::Tensor max_logit;     // [distributions] float32, raw
  at::Tensor top_ids;       // [distributions, k] int32, best first; ties to the lower id
  at::Tensor top_logprobs;  // [distributions, k] float32
  at::Tensor ranks;         // [targets] int32, from 1; -1 where a logit is not finite
};

// The tensor of each list of TokenOutputs, in the order of kLists.
inline constexpr at::Tensor DistributionResults::*kDistributionTensors[] = {
    &DistributionResults::logprobs,  &DistributionResults::entropy,
    &DistributionResults::min_logit, &DistributionResults::max_logit,
    &DistributionResults::top_ids,   &DistributionResults::top_logprobs,
    &DistributionResults::ranks,
};
static_assert(std::size(kDistributionTensors) == kNumDistributionLists);

// Immutable.
class LanguageModelHead {
 public:
  // `weight` [vocab, hidden] in the decoder's type, on its device: lm_head, or the embedding where
  // the two are tied. Shares it.
  explicit LanguageModelHead(at::Tensor weight);

  // Each distribution's logits are computed once, in float32 from the weights as they are stored.
  // hidden [rows, hidden] in the decoder's type. Differentiable by both where LibTorch's gradient
  // mode is on and one of them wants gradients: products then run in the weight's type (or as
  // autocast says), and backward computes each chunk's logits again. Throws LibTorch's errors.
  DistributionResults Read(const at::Tensor& hidden, const DistributionReads& reads,
                           const DistributionOptions& options) const;

 private:
  int64_t ChunkRows(const DistributionOptions& options, bool by_product) const;

  const at::Tensor weight_;
  const LogitReader reader_;
};

}  // namespace canopy

#endif  // CORE_SCORING_TOKEN_LOGPROBS_H_
