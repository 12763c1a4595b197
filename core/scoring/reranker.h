// The yes/no head of rerankers that are language models: the probability that the next token is yes
// rather than no.
#ifndef CORE_SCORING_RERANKER_H_
#define CORE_SCORING_RERANKER_H_

#include <utility>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "core/checkpoint/head_settings.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Immutable.
class YesNoHead {
 public:
  // `rows` [2, hidden] float32: the vocabulary head's rows for yes and no.
  explicit YesNoHead(at::Tensor rows) : rows_(std::move(rows)) {}

  // Copies its two rows from the vocabulary head [vocab, hidden]: lm_head.weight, or the embedding
  // if the two are tied. Returns INVALID_ARGUMENT if the tokens are equal or outside the
  // vocabulary.
  static absl::StatusOr<YesNoHead> Load(const TensorView& vocabulary, const RerankerTokens& tokens,
                                        at::Device device);

  // hidden [paths, hidden] in any float dtype -> p(yes) [paths, 1] float32: the softmax over the
  // two logits, computed in float32. Throws LibTorch's errors.
  at::Tensor Score(const at::Tensor& hidden) const;

 private:
  at::Tensor rows_;
};

}  // namespace canopy

#endif  // CORE_SCORING_RERANKER_H_
