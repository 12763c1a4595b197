// The checkpoint layout of typed-decision models: a backbone with its own prefix, and a head that
// reads all candidates of a question together (core/scoring/set_head).
#ifndef CORE_CHECKPOINT_DECISION_LAYOUT_H_
#define CORE_CHECKPOINT_DECISION_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "core/checkpoint/tensor_spec.h"

namespace canopy {

inline constexpr char kDecisionBackbonePrefix[] = "path_encoder.backbone.";

// The sizes of the head, which are the same in every published checkpoint.
inline constexpr int64_t kSetWidth = 256;
inline constexpr int64_t kSetHeads = 4;
inline constexpr int64_t kSetFeedForward = 1024;
inline constexpr int64_t kSetLayers = 2;

// Returns the tensors of the head: proj_in, set_encoder (with the names of PyTorch's
// TransformerEncoder), proj_out and scorer. All projections have biases.
std::vector<TensorSpec> DecisionHeadTensors(int64_t hidden_size);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_DECISION_LAYOUT_H_
