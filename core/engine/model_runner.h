// The interface between the engine and the code that computes: one loaded model on one device.
//
// The LibTorch implementation is core/runtime/torch_runner. Tests use a fake implementation and so
// run the engine and the server without LibTorch.
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

// The results of one forward, on the host, in the order of TreePlan::paths.
struct PartOutput {
  std::vector<float> scores;  // [paths, num_labels]; empty if not requested
  std::string vectors;        // [paths, hidden_size] in the requested type; empty if not requested
  TokenOutputs tokens;        // filled if distributions() was requested; paths are in part order
  ValueOutputs values;        // filled if values were requested
  std::vector<uint8_t> finite;  // [paths]; 0 = the hidden state at the path's end is not finite
  // [paths]; 0 = an earlier hidden state of the path, which per-token outputs read, is not finite.
  // Empty = all are finite.
  std::vector<uint8_t> inner_finite;
  // [paths]; the outputs that contain a number that is not finite. Empty = no path has such an
  // output.
  std::vector<OutputSet> unscored;
  // [paths, hidden_size], as the decoder computed them; empty if not requested
  std::vector<float> endpoints;
};

// The input of a head over whole questions: the vectors of all candidates, from all parts.
struct DecisionInput {
  absl::Span<const float> endpoints;           // [paths, hidden_size]
  absl::Span<const uint8_t> finite;            // [paths]; 0 = the head ignores this vector
  absl::Span<const int32_t> question_offsets;  // [questions + 1]; offsets into the paths
};

// Used by one thread at a time, except for the methods that name other threads.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual std::shared_ptr<const ModelInfo> info() const = 0;

  // Returns the recorded graphs. Any thread may call it.
  virtual GraphUse graphs() const { return {}; }

  // Returns the memory of the runner's device. Any thread may call it.
  virtual DeviceMemory device_memory() const { return {}; }

  // Runs one forward. Returns RESOURCE_EXHAUSTED if the device has too little memory (the caller
  // may try a smaller forward), UNAVAILABLE if the device is lost, and INTERNAL otherwise.
  virtual absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) = 0;

  // Returns the scores of whole questions, [paths], if info()->score_head is kDecision. For such a
  // model Run returns endpoints instead of scores, because a part may contain only some candidates
  // of a question. A candidate that is not finite has the score NaN and does not change the scores
  // of the others. The engine calls Decide after all parts of a request have run. Returns the
  // errors of Run; RESOURCE_EXHAUSTED means that a question is too large for the device.
  virtual absl::StatusOr<std::vector<float>> Decide(const DecisionInput& /*input*/) {
    return absl::InternalError("this model has no decision head");
  }
};

}  // namespace canopy

#endif  // CORE_ENGINE_MODEL_RUNNER_H_
