// Computes vectors from token paths: a decoder without a head, with status instead of exceptions.
#ifndef CORE_MODEL_TREE_ENCODER_H_
#define CORE_MODEL_TREE_ENCODER_H_

#include <cstdint>
#include <memory>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/model/fused_backend.h"
#include "core/model/weights.h"
#include "core/ops/kernel_ops_factory.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// The weights never change. Encode and RecordNextGraph may record graphs of the fused backend, so
// only one of them may run at a time.
class TreeEncoder {
 public:
  // Copies the weights to `options`' device in its dtype (float32, bfloat16 or float16). Returns
  // RESOURCE_EXHAUSTED if they do not fit. `kernels` makes the kernels of Backend::kFused; null =
  // the CUDA kernels. See LoadDecoderWeights for `check_wanted` and for what happens to `weights`.
  static absl::StatusOr<std::unique_ptr<TreeEncoder>> Create(
      const ModelConfig& config, const WeightMap& weights, const at::TensorOptions& options,
      const KernelOpsFactory& kernels = {}, const WantedCheck& check_wanted = nullptr);

  // Returns final-norm hidden states [slots, hidden] at the given flat grid slots of the plan, in
  // their order, on the device in the compute dtype. With TreePlan::endpoints as slots it returns
  // one vector per path. Returns INVALID_ARGUMENT for a token outside the vocabulary or a slot
  // outside the grid, FAILED_PRECONDITION for a backend that is not supported here, and the errors
  // of GuardTorch.
  absl::StatusOr<at::Tensor> Encode(const TreePlan& plan, absl::Span<const int32_t> slots);

  // Returns OK, or FAILED_PRECONDITION with the reason why Backend::kFused is not supported here.
  const absl::Status& fused_status() const { return fused_status_; }

  // Records one more of the graphs that the fused backend replays for small forwards, so that no
  // request waits for the recording. Returns false if there are no more. A no-op on a CPU. Returns
  // the errors of GuardTorch.
  absl::StatusOr<bool> RecordNextGraph();
  // Thread-safe.
  int64_t num_graphs() const { return fused_ == nullptr ? 0 : fused_->num_graphs(); }
  int64_t graph_bytes() const { return fused_ == nullptr ? 0 : fused_->graph_bytes(); }

  const ModelConfig& config() const { return config_; }
  const at::TensorOptions& options() const { return options_; }

  // [vocab, hidden] on the device in the compute dtype. A model with tied weights also uses it as
  // its language model head.
  const at::Tensor& embedding() const { return weights_.embedding; }

 private:
  TreeEncoder(const ModelConfig& config, DecoderWeights weights, const at::TensorOptions& options,
              const KernelOpsFactory& kernels);

  const ModelConfig config_;
  const at::TensorOptions options_;
  const DecoderWeights weights_;
  absl::Status fused_status_;
  std::unique_ptr<FusedBackend> fused_;  // null unless fused_status_ is OK
};

}  // namespace canopy

#endif  // CORE_MODEL_TREE_ENCODER_H_
