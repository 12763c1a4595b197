// Runs plans of Backend::kFused: the decoder over a flat forest, through the kernels of kernels/.
//
// Forwards of few tokens are recorded once as a graph for each size and then replayed, because
// starting kernels one by one would take longer than running them. The forest is padded to the
// graph's size with tokens behind it, each a tree of its own. The graph ends after the last layer's
// mixer: what follows depends on the rows that are read.
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

// One forward at a time. Shares the weights' memory.
class FusedBackend {
 public:
  // Makes a backend on the device and in the dtype of `options`. Returns FAILED_PRECONDITION,
  // saying why, for a model with a sliding window, or as `kernels` says. Throws LibTorch's errors.
  static absl::StatusOr<std::unique_ptr<FusedBackend>> Create(const ModelConfig& config,
                                                              const DecoderWeights& weights,
                                                              const at::TensorOptions& options,
                                                              const KernelOpsFactory& kernels);

  // `recorder` is null if no forward is to run as a graph.
  FusedBackend(const ModelConfig& config, const DecoderWeights& weights,
               std::unique_ptr<const KernelOps> ops, std::unique_ptr<GraphRecorder> recorder);
  FusedBackend(const FusedBackend&) = delete;
  FusedBackend& operator=(const FusedBackend&) = delete;

  // Returns final-norm hidden states [slots, hidden] at the given grid slots, in their order. The
  // tokens of the plan must be in the vocabulary. May record a graph. Returns INVALID_ARGUMENT for
  // a slot outside the grid, INTERNAL for a plan that is not a flat forest. Call in inference mode.
  // Throws LibTorch's errors.
  absl::StatusOr<at::Tensor> Forward(const TreePlan& plan, absl::Span<const int32_t> slots);

  // Records the graph of the smallest size that has none yet. Returns false if there is nothing
  // left to record or the limit of bytes is reached. Call in inference mode. Throws LibTorch's
  // errors.
  bool RecordNextGraph();

  // The number of recorded graphs, and the device memory that they and their buffers take. From any
  // thread.
  int64_t num_graphs() const { return graphs_.has_value() ? graphs_->num_graphs() : 0; }
  int64_t graph_bytes() const { return graphs_.has_value() ? graphs_->graph_bytes() : 0; }

 private:
  // A forward of a fixed number of tokens up to the last layer's mixer, and what it reads and
  // writes. The padded forest is one copy away.
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
  LayerBuffers graph_buffers_;  // shared by all graphs; made when the first is recorded
  std::optional<GraphCache<ForwardGraph>> graphs_;  // unset if there is no recorder
};

}  // namespace canopy

#endif  // CORE_MODEL_FUSED_BACKEND_H_
