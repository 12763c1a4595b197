// The head of a language model. Computes log-probabilities and ranks of tokens, entropy, the range
// of the logits and the most likely tokens from hidden states. Logits are stored for one chunk of
// rows at a time, whatever the size of the batch, and our kernels read them in one pass. On Hopper
// they are not stored at all, unless tokens are compared with each other.
#ifndef CORE_SCORING_TOKEN_LOGPROBS_H_
#define CORE_SCORING_TOKEN_LOGPROBS_H_

#include <cstdint>
#include <iterator>

#include "ATen/core/Tensor.h"
#include "core/ops/logit_ops.h"
#include "core/scoring/output_rows.h"
#include "core/tree/outputs.h"

namespace canopy {

// Outputs that need another head are ignored. top_logprobs must not exceed the vocabulary size.
struct DistributionOptions : OutputSelection {
  // Limits the bytes of a chunk's logits and of everything computed from them; a chunk has at least
  // one row. The default leaves room below 1 GiB for the library's own scratch memory.
  int64_t workspace_bytes = int64_t{768} << 20;
};

// Tensors are on the device of the hidden states, and undefined if they were not requested.
struct DistributionResults {
  at::Tensor logprobs;      // [targets] float32
  at::Tensor entropy;       // [distributions] float32, in nats
  at::Tensor min_logit;     // [distributions] float32, raw logit
  at::Tensor max_logit;     // [distributions] float32, raw logit
  at::Tensor top_ids;       // [distributions, k] int32, best first; the lower id wins a tie
  at::Tensor top_logprobs;  // [distributions, k] float32
  at::Tensor ranks;         // [targets] int32, from 1; -1 if a logit of the row is not finite
};

// The tensor for each list of TokenOutputs, in the order of kLists.
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
  // `weight` [vocab, hidden] is in the decoder's dtype and on its device: lm_head, or the embedding
  // if the two are tied. The head shares its memory.
  explicit LanguageModelHead(at::Tensor weight);

  // Returns the requested results. hidden [rows, hidden] in the decoder's dtype. Each
  // distribution's logits are computed once, in float32 from the stored weights. The results are
  // differentiable with respect to `hidden` and the weight, if LibTorch's gradient mode is on and
  // one of the two requires gradients. Products then run in the weight's dtype (or as autocast
  // decides), and the backward pass computes each chunk's logits again. Throws LibTorch's errors.
  DistributionResults Read(const at::Tensor& hidden, const DistributionReads& reads,
                           const DistributionOptions& options) const;

 private:
  int64_t ChunkRows(const DistributionOptions& options, bool by_product) const;

  const at::Tensor weight_;
  const LogitReader reader_;
};

}  // namespace canopy

#endif  // CORE_SCORING_TOKEN_LOGPROBS_H_
