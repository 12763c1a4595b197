// The checkpoint layout of typed-decision models: a backbone under a prefix of its own, and beside
// it a head that sees all candidates of a question at once (core/scoring/set_head).
#ifndef CORE_CHECKPOINT_DECISION_LAYOUT_H_
#define CORE_CHECKPOINT_DECISION_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "core/checkpoint/tensor_spec.h"

namespace canopy {

inline constexpr char kDecisionBackbonePrefix[] = "path_encoder.backbone.";

// Sizes of the head that every published checkpoint has.
inline constexpr int64_t kSetWidth = 256;
inline constexpr int64_t kSetHeads = 4;
inline constexpr int64_t kSetFeedForward = 1024;
inline constexpr int64_t kSetLayers = 2;

// The head's tensors: proj_in, set_encoder (PyTorch's names of a TransformerEncoder), proj_out and
// scorer; all projections have biases.
std::vector<TensorSpec> DecisionHeadTensors(int64_t hidden_size);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_DECISION_LAYOUT_H_
