#include "core/model/tree_encoder.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "core/model/decoder.h"
#include "core/model/torch_layer_ops.h"
#include "core/model/tree_context.h"
#include "core/model/weights.h"
#include "core/ops/cuda_kernel_ops.h"
#include "core/ops/torch_guard.h"

namespace canopy {

TreeEncoder::TreeEncoder(const ModelConfig& config, DecoderWeights weights,
                         const at::TensorOptions& options, const KernelOpsFactory& kernels)
    : config_(config), options_(options), weights_(std::move(weights)) {
  // The missing device is checked first, because no other model would run on this device either.
  if (!kernels && !options_.device().is_cuda()) {
    fused_status_ = absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: the model runs on ", options_.device().str()));
    return;
  }
  auto fused =
      FusedBackend::Create(config_, weights_, options_, kernels ? kernels : MakeCudaKernelOps);
  fused_status_ = fused.status();
  if (fused.ok()) {
    fused_ = *std::move(fused);
  }
}

absl::StatusOr<std::unique_ptr<TreeEncoder>> TreeEncoder::Create(const ModelConfig& config,
                                                                 const WeightMap& weights,
                                                                 const at::TensorOptions& options,
                                                                 const KernelOpsFactory& kernels,
                                                                 const WantedCheck& check_wanted) {
  CANOPY_ASSIGN_OR_RETURN(DecoderWeights decoder,
                          LoadDecoderWeights(config, weights, options, check_wanted));
  return GuardTorch("starting the model", [&]() -> absl::StatusOr<std::unique_ptr<TreeEncoder>> {
    const c10::InferenceMode inference;
    return absl::WrapUnique(new TreeEncoder(config, std::move(decoder), options, kernels));
  });
}

absl::StatusOr<bool> TreeEncoder::RecordNextGraph() {
  if (fused_ == nullptr) {
    return false;
  }
  return GuardTorch("recording a graph", [&]() -> absl::StatusOr<bool> {
    const c10::InferenceMode inference;
    return fused_->RecordNextGraph();
  });
}

absl::StatusOr<at::Tensor> TreeEncoder::Encode(const TreePlan& plan,
                                               absl::Span<const int32_t> slots) {
  CANOPY_RETURN_IF_ERROR(CheckTokens(plan.grid.token_ids, config_.vocab_size));
  return GuardTorch("forward", [&]() -> absl::StatusOr<at::Tensor> {
    const c10::InferenceMode inference;
    if (plan.backend == Backend::kFused) {
      CANOPY_RETURN_IF_ERROR(fused_status_);
      return fused_->Forward(plan, slots);
    }
    CANOPY_ASSIGN_OR_RETURN(
        const TreeContext context,
        TreeContext::Create(
            plan, slots,
            {weights_.rotary, c10::typeMetaToScalarType(options_.dtype()), config_.sliding_window,
             /*training=*/{}}));
    TorchLayerOps ops(config_, context);
    return Decode(weights_, ops);
  });
}

}  // namespace canopy
