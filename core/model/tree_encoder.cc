#include "core/model/tree_encoder.h"

#include <utility>

#include "absl/memory/memory.h"
#include "c10/core/InferenceMode.h"
#include "core/base/status_macros.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"
#include "core/ops/torch_guard.h"

namespace canopy {

TreeEncoder::TreeEncoder(const ModelConfig& config, DecoderWeights weights,
                         const at::TensorOptions& options)
    : config_(config), options_(options), decoder_(config, std::move(weights)) {}

absl::StatusOr<std::unique_ptr<TreeEncoder>> TreeEncoder::Create(const ModelConfig& config,
                                                                 const WeightMap& weights,
                                                                 const at::TensorOptions& options) {
  CANOPY_ASSIGN_OR_RETURN(DecoderWeights decoder, LoadDecoderWeights(config, weights, options));
  return absl::WrapUnique(new TreeEncoder(config, std::move(decoder), options));
}

absl::StatusOr<at::Tensor> TreeEncoder::Encode(const TreePlan& plan,
                                               absl::Span<const int32_t> slots) const {
  return GuardTorch("forward", [&]() -> absl::StatusOr<at::Tensor> {
    const c10::InferenceMode inference;
    CANOPY_ASSIGN_OR_RETURN(const TreeContext context,
                            TreeContext::Create(plan, slots, decoder_.weights().inverse_frequencies,
                                                c10::typeMetaToScalarType(options_.dtype())));
    return decoder_.Forward(context);
  });
}

}  // namespace canopy
