// The seam between the engine and what computes: one loaded model on one device.
//
// The LibTorch implementation is core/runtime/torch_runner; tests put a fake here, and so run the
// engine and the server without LibTorch.
#ifndef CORE_ENGINE_MODEL_RUNNER_H_
#define CORE_ENGINE_MODEL_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Results of one forward, on the host, in the order of TreePlan::paths.
struct PartOutput {
  std::vector<float> scores;    // [paths, num_labels]; empty when not asked for
  std::string vectors;          // [paths, hidden_size] in the type asked for; empty likewise
  TokenOutputs tokens;          // where distributions() are asked for; paths in part order
  ValueOutputs values;          // where values are
  std::vector<uint8_t> finite;  // [paths]; 0 = the hidden state at the path's end is not finite
  // [paths]; 0 = a hidden state further up the path is not, which per-token outputs read. Empty =
  // all are finite.
  std::vector<uint8_t> inner_finite;
  // [paths]; outputs with a number that is not finite. Empty = none has one.
  std::vector<OutputSet> unscored;
  std::vector<float> endpoints;  // [paths, hidden_size], as the decoder left them; empty likewise
};

// What a head over whole questions reads: all their vectors, whichever parts computed them.
struct DecisionInput {
  absl::Span<const float> endpoints;           // [paths, hidden_size]
  absl::Span<const uint8_t> finite;            // [paths]; 0 = its vector is no part of its question
  absl::Span<const int32_t> question_offsets;  // [questions + 1], into the paths
};

// Used from one thread at a time, but for what says otherwise.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual std::shared_ptr<const ModelInfo> info() const = 0;

  // From any thread.
  virtual GraphUse graphs() const { return {}; }

  // Of its device, from any thread.
  virtual DeviceMemory device_memory() const { return {}; }

  // Runs one forward. RESOURCE_EXHAUSTED when the device has no memory for it (the caller may try
  // a smaller one); UNAVAILABLE when the device is lost; INTERNAL otherwise.
  virtual absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) = 0;

  // Scores of whole questions, [paths], where info()->score_head is kDecision; there Run gives
  // endpoints instead of scores, since a part may hold some candidates of a question only. NaN for
  // what is not finite, and no candidate that is not finite spoils another. Called once all parts
  // of a request have run. Errors as of Run; RESOURCE_EXHAUSTED = a question is too large for the
  // device.
  virtual absl::StatusOr<std::vector<float>> Decide(const DecisionInput& /*input*/) {
    return absl::InternalError("this model has no decision head");
  }
};

}  // namespace canopy

#endif  // CORE_ENGINE_MODEL_RUNNER_H_
