// The kernels of one model, and the buffers that they work on.
#ifndef CORE_MODEL_MODEL_KERNELS_H_
#define CORE_MODEL_MODEL_KERNELS_H_

#include <cstdint>
#include <memory>

#include "ATen/core/Tensor.h"
#include "core/checkpoint/model_config.h"
#include "core/model/weights.h"
#include "core/ops/kernel_ops.h"

namespace canopy {

// Returns the properties of a model that the kernels need.
KernelModel KernelModelOf(const ModelConfig& config, const DecoderWeights& weights);

// Each buffer has a row for each token, except gate_up and activated. These two have fewer rows,
// and the tokens are processed in parts that reuse the rows.
struct LayerBuffers {
  at::Tensor hidden;  // the residual stream
  at::Tensor normed;
  at::Tensor qkv;
  at::Tensor mixed;
  at::Tensor gate_up;
  at::Tensor activated;
};

// Returns the first rows of each buffer. `rows` must not exceed the rows of the buffers.
LayerBuffers FirstRows(const LayerBuffers& buffers, int64_t rows);

// Immutable. Throws LibTorch's errors.
class ModelKernels {
 public:
  // Buffers have the device and dtype of `options`.
  ModelKernels(const ModelConfig& config, const at::TensorOptions& options,
               std::unique_ptr<const KernelOps> ops);

  const KernelOps& ops() const { return *ops_; }
  const ExpertsConfig& experts() const { return config_.experts; }

  // Returns buffers for all steps of a layer with `rows` rows.
  LayerBuffers MakeBuffers(int64_t rows) const;
  // Returns buffers for the steps after the mixer with `rows` rows, without `qkv`.
  LayerBuffers MakeFinishBuffers(int64_t rows) const;

 private:
  at::Tensor MakeRows(int64_t rows, int64_t columns) const;

  const ModelConfig config_;
  const at::TensorOptions options_;
  const int64_t intermediate_size_;  // intermediate size of dense MLPs; 0 if no layer has one
  const std::unique_ptr<const KernelOps> ops_;
};

}  // namespace canopy

#endif  // CORE_MODEL_MODEL_KERNELS_H_
