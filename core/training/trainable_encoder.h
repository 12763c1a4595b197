// The decoder for whoever trains it: token paths to vectors that are differentiable by the model's
// parameters. docs/TRAINING.md shows a step.
//
// With dropout off, the gradients are those of running every path alone, whichever backend runs:
// what flows back through a token that paths share adds up in it.
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

// One Encode at a time. An optimiser may change the parameters in place between forwards.
class TrainableEncoder {
 public:
  // Copies the weights to `options`' device in its dtype; float32 for training under autocast.
  // RESOURCE_EXHAUSTED when they do not fit.
  static absl::StatusOr<std::unique_ptr<TrainableEncoder>> Create(const ModelConfig& config,
                                                                  const WeightMap& weights,
                                                                  const at::TensorOptions& options);

  // The decoder's parameters under the names of the checkpoint, without its prefix: leaves that
  // want gradients. The tensors are shared; heads, which core/scoring computes, have their own.
  const ParameterMap& parameters() const { return parameters_; }

  // As TreeEncoder::Encode, differentiable where LibTorch's gradient mode is on, and under autocast
  // as LibTorch computes there. Joins the parameters to the layers' matrices in each call, so that
  // they take their memory twice until the outputs' graph is gone.
  // INVALID_ARGUMENT also for options out of range; FAILED_PRECONDITION for Backend::kFused, which
  // computes no gradients.
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
