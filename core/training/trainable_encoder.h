// The decoder for training: computes vectors from token paths, differentiable with respect to the
// model's parameters. docs/TRAINING.md shows a training step.
//
// With dropout off, the gradients equal those of running every path alone, on every backend: the
// gradients of all paths through a shared token are summed.
#ifndef CORE_TRAINING_TRAINABLE_ENCODER_H_
#define CORE_TRAINING_TRAINABLE_ENCODER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/model/training_options.h"
#include "core/model/weights.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Runs one Encode at a time. An optimizer may change the parameters in place between forwards.
class TrainableEncoder {
 public:
  // Copies the weights to `options`' device in its dtype; use float32 for training under autocast.
  // Returns RESOURCE_EXHAUSTED if they do not fit.
  static absl::StatusOr<std::unique_ptr<TrainableEncoder>> Create(const ModelConfig& config,
                                                                  const WeightMap& weights,
                                                                  const at::TensorOptions& options);

  // Returns the decoder's parameters by their names in the checkpoint, without its prefix. They are
  // leaf tensors that require gradients, and share memory with the encoder. The parameters of
  // heads, which core/scoring computes, are not included.
  const ParameterMap& parameters() const { return parameters_; }

  // Like TreeEncoder::Encode, but differentiable if LibTorch's gradient mode is on, and with
  // autocast if it is enabled. Each call fuses the parameters into the layers' matrices, so they
  // take twice their memory until the outputs' graph is released. Also returns INVALID_ARGUMENT for
  // options out of range, and FAILED_PRECONDITION for Backend::kFused, which computes no gradients.
  absl::StatusOr<at::Tensor> Encode(const TreePlan& plan, absl::Span<const int32_t> slots,
                                    const TrainingOptions& training) const;

  const ModelConfig& config() const { return config_; }
  const at::TensorOptions& options() const { return options_; }

 private:
  TrainableEncoder(const ModelConfig& config, const at::TensorOptions& options,
                   ParameterMap parameters)
      : config_(config), options_(options), parameters_(std::move(parameters)) {}

  const ModelConfig config_;
  const at::TensorOptions options_;
  const ParameterMap parameters_;
};

}  // namespace canopy

#endif  // CORE_TRAINING_TRAINABLE_ENCODER_H_
