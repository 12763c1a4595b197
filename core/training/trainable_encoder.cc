#include "core/training/trainable_encoder.h"

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "core/model/decoder.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"
#include "core/ops/torch_guard.h"
#include "core/training/training_layer_ops.h"

namespace canopy {

absl::StatusOr<std::unique_ptr<TrainableEncoder>> TrainableEncoder::Create(
    const ModelConfig& config, const WeightMap& weights, const at::TensorOptions& options) {
  CANOPY_ASSIGN_OR_RETURN(ParameterMap parameters, LoadParameters(config, weights, options));
  return absl::WrapUnique(new TrainableEncoder(config, options, std::move(parameters)));
}

absl::StatusOr<at::Tensor> TrainableEncoder::Encode(const TreePlan& plan,
                                                    absl::Span<const int32_t> slots,
                                                    const TrainingOptions& training) const {
  CANOPY_RETURN_IF_ERROR(CheckTokens(plan.grid.token_ids, config_.vocab_size));
  return GuardTorch("training forward", [&]() -> absl::StatusOr<at::Tensor> {
    const DecoderWeights weights = FuseParameters(config_, parameters_);
    CANOPY_ASSIGN_OR_RETURN(
        const TreeContext context,
        TreeContext::Create(plan, slots,
                            {weights.rotary, c10::typeMetaToScalarType(options_.dtype()),
                             config_.sliding_window, training}));
    TrainingLayerOps ops(config_, context, training.recompute_layers);
    return Decode(weights, ops);
  });
}

}  // namespace canopy
