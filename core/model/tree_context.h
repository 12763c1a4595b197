// Everything of a TreePlan that the layers of one forward need, on the device, as one argument.
#ifndef CORE_MODEL_TREE_CONTEXT_H_
#define CORE_MODEL_TREE_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/attention_backend.h"
#include "core/model/rotary.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Immutable, for one forward on one thread. Owns its tensors; the plan may go once it is made.
class TreeContext {
 public:
  // Copies the plan's index arrays to the device at once and binds the plan's attention backend.
  // `output_slots` are the grid slots whose hidden states the forward returns.
  // `frequencies` are on the device; `dtype` is the compute dtype.
  // INVALID_ARGUMENT for a slot outside the grid; FAILED_PRECONDITION for a backend that is not one
  // of path, dense and segmented. Throws LibTorch's errors.
  static absl::StatusOr<TreeContext> Create(const TreePlan& plan,
                                            absl::Span<const int32_t> output_slots,
                                            const RotaryFrequencies& frequencies,
                                            at::ScalarType dtype);

  const at::Tensor& token_ids() const { return token_ids_; }        // [tokens] int32
  const at::Tensor& output_slots() const { return output_slots_; }  // [outputs] int32
  const RotaryTables& rotary() const { return rotary_; }
  const AttentionBackend& attention() const { return *attention_; }

 private:
  TreeContext() = default;

  at::Tensor token_ids_;
  at::Tensor output_slots_;
  RotaryTables rotary_;
  std::unique_ptr<const AttentionBackend> attention_;
};

}  // namespace canopy

#endif  // CORE_MODEL_TREE_CONTEXT_H_
