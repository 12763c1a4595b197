// Computes the outputs of paths from the hidden states of one forward: the heads of a model, and
// one copy to the host for all of them.
#ifndef CORE_RUNTIME_PART_HEADS_H_
#define CORE_RUNTIME_PART_HEADS_H_

#include <optional>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "core/engine/model_runner.h"
#include "core/engine/types.h"
#include "core/scoring/output_rows.h"
#include "core/scoring/reranker.h"
#include "core/scoring/reward.h"
#include "core/scoring/set_head.h"
#include "core/scoring/token_logprobs.h"

namespace canopy {

struct ModelHeads {
  std::optional<RewardHead> reward;  // computes values too
  std::optional<YesNoHead> reranker;
  std::optional<SetHead> decision;  // over whole questions; not applied to the parts of a request
  std::optional<LanguageModelHead> language_model;
};

// Returns INVALID_ARGUMENT for an output that `model` has no head for, or for more top log-probs
// than the vocabulary has tokens.
absl::Status CheckHeads(const OutputSelection& outputs, const ModelInfo& model);

// `hidden` [rows, hidden size] contains the rows of PlanOutputRows, in the decoder's type;
// `num_paths` of them are endpoints. Preconditions: `outputs` have passed CheckHeads, and inference
// mode is on. Throws LibTorch's errors.
struct PartHidden {
  const at::Tensor& hidden;
  const OutputRows& rows;
  int64_t num_paths;
};
PartOutput ComputeOutputs(const ModelHeads& heads, const PartHidden& part,
                          const OutputSelection& outputs);

}  // namespace canopy

#endif  // CORE_RUNTIME_PART_HEADS_H_
