// Token paths to vectors: a decoder without a head, behind status instead of exceptions.
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

// The weights never change; Encode and RecordNextGraph, of which one runs at a time, may record
// graphs of the fused backend.
class TreeEncoder {
 public:
  // Copies the weights to `options`' device in its dtype (float32, bfloat16 or float16).
  // RESOURCE_EXHAUSTED when they do not fit. `kernels` are those of Backend::kFused; null = CUDA's.
  // `check_wanted`, and what becomes of `weights`, as of LoadDecoderWeights.
  static absl::StatusOr<std::unique_ptr<TreeEncoder>> Create(
      const ModelConfig& config, const WeightMap& weights, const at::TensorOptions& options,
      const KernelOpsFactory& kernels = {}, const WantedCheck& check_wanted = nullptr);

  // Final-norm hidden states [slots, hidden] at the given flat grid slots of the plan, in their
  // order, on the device in the compute dtype: TreePlan::endpoints gives a vector a path.
  // INVALID_ARGUMENT for a token outside the vocabulary or a slot outside the grid;
  // FAILED_PRECONDITION for a backend that does not run here; otherwise what GuardTorch returns.
  absl::StatusOr<at::Tensor> Encode(const TreePlan& plan, absl::Span<const int32_t> slots);

  // OK, or FAILED_PRECONDITION saying why Backend::kFused does not run here.
  const absl::Status& fused_status() const { return fused_status_; }

  // Records one more of the graphs that the fused backend replays for small forwards, so that no
  // request waits for it; false = there are no more. Nothing to do on a CPU. Errors as GuardTorch
  // returns them.
  absl::StatusOr<bool> RecordNextGraph();
  // From any thread.
  int64_t num_graphs() const { return fused_ == nullptr ? 0 : fused_->num_graphs(); }
  int64_t graph_bytes() const { return fused_ == nullptr ? 0 : fused_->graph_bytes(); }

  const ModelConfig& config() const { return config_; }
  const at::TensorOptions& options() const { return options_; }

  // [vocab, hidden] on the device in the compute dtype: the head too of a model that ties the two.
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
