// The seam between the engine and what computes: one loaded model on one device.
//
// The LibTorch implementation is core/engine/torch_runner; tests put a fake here, and so run the
// engine and the server without LibTorch.
#ifndef CORE_ENGINE_MODEL_RUNNER_H_
#define CORE_ENGINE_MODEL_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Results of one forward, on the host, in the order of TreePlan::paths.
struct PartOutput {
  std::vector<float> scores;    // [paths, num_labels]; empty when not asked for
  std::string vectors;          // [paths, hidden_size] in the type asked for; empty likewise
  TokenOutputs tokens;          // where distributions() are asked for; paths in part order
  ValueOutputs values;          // where values are
  std::vector<uint8_t> finite;  // [paths]; 0 = the hidden state or a result is not finite
};

// Used from one thread at a time.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual std::shared_ptr<const ModelInfo> info() const = 0;

  // Runs one forward. RESOURCE_EXHAUSTED when the device has no memory for it (the caller may try
  // a smaller one); UNAVAILABLE when the device is lost; INTERNAL otherwise.
  virtual absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) = 0;
};

}  // namespace canopy

#endif  // CORE_ENGINE_MODEL_RUNNER_H_
