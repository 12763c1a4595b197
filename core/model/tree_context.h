// The parts of a TreePlan that the layers of one forward need, on the device.
#ifndef CORE_MODEL_TREE_CONTEXT_H_
#define CORE_MODEL_TREE_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/attention_backend.h"
#include "core/model/rotary.h"
#include "core/model/training_options.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Returns INVALID_ARGUMENT for a token outside the vocabulary. Call it before a plan runs: on CUDA
// such a token would make the device unusable for the process.
absl::Status CheckTokens(absl::Span<const int32_t> tokens, int64_t vocab_size);

struct TreeContextOptions {
  RotaryFrequencies frequencies;      // on the device
  at::ScalarType dtype = at::kFloat;  // dtype of the weights
  int64_t sliding_window = 0;         // window of the model's sliding layers; 0 if there are none
  std::optional<TrainingOptions> training;  // unset = no gradients
};

// Immutable, for one forward on one thread. Copies share its tensors. The plan need not outlive it.
class TreeContext {
 public:
  // Copies the plan's index arrays to the device in one upload and binds the plan's attention
  // backend. `output_slots` are the grid slots whose hidden states the forward returns. Returns
  // INVALID_ARGUMENT for a slot outside the grid or a dropout outside 0 <= p < 1. Returns
  // FAILED_PRECONDITION for a backend other than path, dense and segmented, and for any backend
  // other than path if there is a sliding window. Throws LibTorch's errors.
  static absl::StatusOr<TreeContext> Create(const TreePlan& plan,
                                            absl::Span<const int32_t> output_slots,
                                            const TreeContextOptions& options);

  const at::Tensor& token_ids() const { return token_ids_; }        // [tokens] int32
  const at::Tensor& output_slots() const { return output_slots_; }  // [outputs] int32
  const RotaryTables& rotary() const { return rotary_; }
  const AttentionBackend& attention() const { return *attention_; }
  // Returns the attention of sliding-window layers. Precondition: Create was given a sliding
  // window.
  const AttentionBackend& sliding_attention() const { return *sliding_attention_; }

 private:
  TreeContext() = default;

  at::Tensor token_ids_;
  at::Tensor output_slots_;
  RotaryTables rotary_;
  std::shared_ptr<const AttentionBackend> attention_;
  std::shared_ptr<const AttentionBackend> sliding_attention_;
};

}  // namespace canopy

#endif  // CORE_MODEL_TREE_CONTEXT_H_
