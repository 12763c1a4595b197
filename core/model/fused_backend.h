// Runs plans of Backend::kFused: the decoder over a flat forest, with the kernels in kernels/.
//
// Forwards of few tokens are recorded once per size as a graph and then replayed, because launching
// their kernels one by one would take longer than running them. The forest is padded to the graph's
// size with extra tokens that only read themselves. The graph ends after the last layer's mixer,
// because the later steps depend on the rows that are read.
#ifndef CORE_MODEL_FUSED_BACKEND_H_
#define CORE_MODEL_FUSED_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/model_config.h"
#include "core/model/graph_cache.h"
#include "core/model/kernel_layer_ops.h"
#include "core/model/layer_ops.h"
#include "core/model/model_kernels.h"
#include "core/model/weights.h"
#include "core/ops/graph_recorder.h"
#include "core/ops/kernel_ops.h"
#include "core/ops/kernel_ops_factory.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// Runs one forward at a time. Shares the memory of the weights.
class FusedBackend {
 public:
  // Makes a backend on the device and in the dtype of `options`. Returns FAILED_PRECONDITION, with
  // a reason, for a model with a sliding window, and returns the errors of `kernels`. Throws
  // LibTorch's errors.
  static absl::StatusOr<std::unique_ptr<FusedBackend>> Create(const ModelConfig& config,
                                                              const DecoderWeights& weights,
                                                              const at::TensorOptions& options,
                                                              const KernelOpsFactory& kernels);

  // A null `recorder` disables graphs.
  FusedBackend(const ModelConfig& config, const DecoderWeights& weights,
               std::unique_ptr<const KernelOps> ops, std::unique_ptr<GraphRecorder> recorder);
  FusedBackend(const FusedBackend&) = delete;
  FusedBackend& operator=(const FusedBackend&) = delete;

  // Returns final-norm hidden states [slots, hidden] at the given grid slots, in their order. May
  // record a graph. Returns INVALID_ARGUMENT for a slot outside the grid and INTERNAL for a plan
  // that is not a flat forest. Precondition: the tokens of the plan are in the vocabulary. Call in
  // inference mode. Throws LibTorch's errors.
  absl::StatusOr<at::Tensor> Forward(const TreePlan& plan, absl::Span<const int32_t> slots);

  // Records the graph of the smallest size that has none yet. Returns false if every size has a
  // graph or the byte limit is reached. Call in inference mode. Throws LibTorch's errors.
  bool RecordNextGraph();

  // Return the number of recorded graphs, and the device memory used by them and their buffers.
  // Thread-safe.
  int64_t num_graphs() const { return graphs_.has_value() ? graphs_->num_graphs() : 0; }
  int64_t graph_bytes() const { return graphs_.has_value() ? graphs_->graph_bytes() : 0; }

 private:
  // The graph of a fixed number of tokens up to the last layer's mixer, with its inputs and
  // outputs. A forward copies its padded forest into `arrays` and replays the graph.
  struct ForwardGraph {
    at::Tensor arrays;  // [3 x tokens] int32: token ids, position ids, exit
    DeviceForest forest;
    LayerBuffers buffers;
    MixedRows last;
    std::unique_ptr<RecordedGraph> recording;
  };

  at::Tensor RunPlain(const TreePlan& plan, absl::Span<const int32_t> slots) const;
  at::Tensor RunAsGraph(ForwardGraph& graph, const TreePlan& plan,
                        absl::Span<const int32_t> slots) const;
  std::unique_ptr<ForwardGraph> Record(int32_t tokens);

  const DecoderWeights weights_;
  const ModelKernels kernels_;
  const std::unique_ptr<GraphRecorder> recorder_;  // outlives the graphs
  LayerBuffers graph_buffers_;  // shared by all graphs; made when the first graph is recorded
  std::optional<GraphCache<ForwardGraph>> graphs_;  // unset if there is no recorder
};

}  // namespace canopy

#endif  // CORE_MODEL_FUSED_BACKEND_H_
