#include "core/model/fused_backend.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/DeviceGuard.h"
#include "core/model/decoder.h"
#include "core/ops/cuda_graph.h"
#include "core/ops/index_upload.h"

namespace canopy {
namespace {

absl::Status CheckPlan(const TreePlan& plan, absl::Span<const int32_t> slots) {
  const auto num_tokens = static_cast<size_t>(plan.computed_tokens());
  if (plan.grid.rows != 1 || num_tokens == 0 || plan.grid.exit.size() != num_tokens) {
    return absl::InternalError(absl::StrCat("a fused plan of ", plan.grid.rows, " x ",
                                            plan.grid.columns, " slots is no flat forest"));
  }
  for (const int32_t slot : slots) {
    if (slot < 0 || slot >= plan.grid.columns) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output slot ", slot, " is outside the plan's ", plan.grid.columns, " slots"));
    }
  }
  return absl::OkStatus();
}

ForestShape ShapeOf(const TokenGrid& grid) {
  ForestShape shape;
  shape.num_tokens = grid.columns;
  shape.max_path_tokens = *std::max_element(grid.position_ids.begin(), grid.position_ids.end()) + 1;
  shape.visible_pairs =
      std::accumulate(grid.position_ids.begin(), grid.position_ids.end(), int64_t{grid.columns});
  return shape;
}

// Returns token ids, position ids and exits, each padded to `size`. A padding token has id 0 and
// position 0, and only reads itself.
std::vector<int32_t> PadForest(const TokenGrid& grid, size_t size) {
  std::vector<int32_t> padded(3 * size);
  std::copy(grid.token_ids.begin(), grid.token_ids.end(), padded.begin());
  std::copy(grid.position_ids.begin(), grid.position_ids.end(), padded.begin() + size);
  std::iota(std::copy(grid.exit.begin(), grid.exit.end(), padded.begin() + 2 * size), padded.end(),
            grid.columns);
  return padded;
}

// Returns a forest for recording, in which tokens read only themselves. Its shape has the longest
// path and the most pairs that a forest of this size can have.
DeviceForest RecordingForest(const at::Tensor& arrays, int32_t tokens) {
  const auto array = [&](int64_t index) { return arrays.narrow(0, index * tokens, tokens); };
  array(2).copy_(at::arange(tokens, arrays.options()));
  return {array(0), array(1), array(2), {tokens, tokens, int64_t{tokens} * (tokens + 1) / 2}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<FusedBackend>> FusedBackend::Create(
    const ModelConfig& config, const DecoderWeights& weights, const at::TensorOptions& options,
    const KernelOpsFactory& kernels) {
  if (config.sliding_window > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernels take full attention in every layer, not a sliding window of ",
                     config.sliding_window, " tokens"));
  }
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<const KernelOps> ops,
                          kernels(KernelModelOf(config, weights), options));
  // Grouped products of experts may read sizes back to the host, which a graph cannot do.
  const bool records = weights.embedding.is_cuda() && config.experts.sparse_layers.empty();
  return std::make_unique<FusedBackend>(config, weights, std::move(ops),
                                        records ? MakeCudaGraphRecorder() : nullptr);
}

FusedBackend::FusedBackend(const ModelConfig& config, const DecoderWeights& weights,
                           std::unique_ptr<const KernelOps> ops,
                           std::unique_ptr<GraphRecorder> recorder)
    : weights_(weights),
      kernels_(config, weights.embedding.options(), std::move(ops)),
      recorder_(std::move(recorder)) {
  if (recorder_ != nullptr) {
    graphs_.emplace(
        GraphLimits(), [this](int32_t size) { return Record(size); },
        [this] { return recorder_->FreeBytes(); });
  }
}

absl::StatusOr<at::Tensor> FusedBackend::Forward(const TreePlan& plan,
                                                 absl::Span<const int32_t> slots) {
  CANOPY_RETURN_IF_ERROR(CheckPlan(plan, slots));
  const c10::DeviceGuard guard(weights_.embedding.device());
  ForwardGraph* const graph =
      graphs_.has_value() ? graphs_->FindOrRecord(plan.grid.columns) : nullptr;
  return graph != nullptr ? RunAsGraph(*graph, plan, slots) : RunPlain(plan, slots);
}

bool FusedBackend::RecordNextGraph() {
  const c10::DeviceGuard guard(weights_.embedding.device());
  return graphs_.has_value() && graphs_->RecordNext();
}

at::Tensor FusedBackend::RunPlain(const TreePlan& plan, absl::Span<const int32_t> slots) const {
  IndexUpload upload;
  upload.Add(plan.grid.token_ids);
  upload.Add(plan.grid.position_ids);
  upload.Add(plan.grid.exit);
  upload.Add(slots);
  const std::vector<at::Tensor> arrays = upload.Upload(weights_.embedding.device());
  const DeviceForest forest = {arrays[0], arrays[1], arrays[2], ShapeOf(plan.grid)};
  KernelLayerOps ops(kernels_, forest, kernels_.MakeBuffers(plan.grid.columns), arrays[3]);
  return Decode(weights_, ops);
}

at::Tensor FusedBackend::RunAsGraph(ForwardGraph& graph, const TreePlan& plan,
                                    absl::Span<const int32_t> slots) const {
  const std::vector<int32_t> padded =
      PadForest(plan.grid, static_cast<size_t>(graph.forest.shape.num_tokens));
  IndexUpload upload;
  upload.Add(padded);
  upload.Add(slots);
  const std::vector<at::Tensor> arrays = upload.Upload(weights_.embedding.device());
  graph.arrays.copy_(arrays[0]);
  graph.recording->Replay();
  KernelLayerOps ops(kernels_, graph.forest, graph.buffers, arrays[1]);
  return DecodeRest(weights_, graph.last, ops);
}

std::unique_ptr<FusedBackend::ForwardGraph> FusedBackend::Record(int32_t tokens) {
  if (!graph_buffers_.hidden.defined()) {
    graph_buffers_ = kernels_.MakeBuffers(GraphLimits().max_tokens);
  }
  auto graph = std::make_unique<ForwardGraph>();
  graph->arrays =
      at::empty({3 * int64_t{tokens}}, weights_.embedding.options().dtype(at::kInt)).zero_();
  graph->forest = RecordingForest(graph->arrays, tokens);
  graph->buffers = FirstRows(graph_buffers_, tokens);
  ForwardGraph* const recorded = graph.get();
  graph->recording = recorder_->Record([this, recorded] {
    KernelLayerOps ops(kernels_, recorded->forest, recorded->buffers, /*slots=*/{});
    recorded->last = DecodeToLastMixer(weights_, ops);
  });
  return graph;
}

}  // namespace canopy
