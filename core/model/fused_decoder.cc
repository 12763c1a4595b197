#include "core/model/fused_decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/DeviceGuard.h"
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

// An MLP runs so many rows at a time: its inner activations are by far the largest buffers, and
// beyond this size a matrix product gains nothing.
constexpr int64_t kMaxMlpRows = 16'384;

int64_t DenseIntermediateSize(const ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.sparse(layer)) {
      return config.intermediate_size;
    }
  }
  return 0;
}

at::Tensor Turned(const at::Tensor& matrix) { return matrix.defined() ? matrix.t() : at::Tensor(); }

// Steps of an eighth of the size: few sizes, so that LibTorch's allocator finds a buffer of an
// earlier forward, and little waste.
int64_t SizeClass(int64_t rows) {
  int64_t step = 64;
  while (step * 16 < rows) {
    step *= 2;
  }
  return (rows + step - 1) / step * step;
}

// Few sizes, and little more than `tokens`.
int32_t GraphTokens(int32_t tokens) {
  const int32_t step = tokens <= 512 ? 32 : 64;
  return (tokens + step - 1) / step * step;
}

}  // namespace

KernelModel KernelModelOf(const ModelConfig& config, const DecoderWeights& weights) {
  KernelModel model;
  model.hidden_size = config.hidden_size;
  model.intermediate_size = DenseIntermediateSize(config);
  model.num_query_heads = config.num_query_heads;
  model.num_kv_heads = config.num_kv_heads;
  model.head_dim = config.head_dim;
  model.rms_norm_eps = config.rms_norm_eps;
  // Turned queries and keys are multiplied by the rotary scale, so their product is by its square.
  model.score_scale =
      weights.rotary.scale * weights.rotary.scale / std::sqrt(static_cast<double>(config.head_dim));
  model.inverse_frequencies = weights.rotary.inverse;
  return model;
}

// What stands still while a graph runs. The padded forest is one copy away.
struct FusedDecoder::Graph {
  at::Tensor arrays;  // [3 x tokens] int32: token ids, position ids, exit
  Buffers buffers;
  std::unique_ptr<CudaGraph> recording;
};

absl::StatusOr<std::unique_ptr<FusedDecoder>> FusedDecoder::Create(
    const ModelConfig& config, const DecoderWeights& weights, const at::TensorOptions& options,
    const KernelOpsFactory& kernels) {
  if (config.sliding_window > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernels take full attention in every layer, not a sliding window of ",
                     config.sliding_window, " tokens"));
  }
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<const KernelOps> ops,
                          kernels(KernelModelOf(config, weights), options));
  return std::make_unique<FusedDecoder>(config, weights, std::move(ops));
}

FusedDecoder::FusedDecoder(const ModelConfig& config, const DecoderWeights& weights,
                           std::unique_ptr<const KernelOps> ops)
    : config_(config),
      intermediate_size_(DenseIntermediateSize(config)),
      ops_(std::move(ops)),
      embedding_(weights.embedding),
      final_norm_(weights.final_norm) {
  for (const LayerWeights& layer : weights.layers) {
    const auto head_norm = [&](int64_t head) {
      return layer.qk_norm.defined() ? layer.qk_norm[head] : at::Tensor();
    };
    layers_.push_back({layer.input_norm,
                       {layer.qkv, layer.qkv_bias, head_norm(0), head_norm(config.num_query_heads)},
                       layer.output.t(),
                       layer.output_bias,
                       layer.post_attention_norm,
                       layer.gate_up,
                       Turned(layer.down),
                       layer.experts});
  }
}

FusedDecoder::~FusedDecoder() = default;

int64_t FusedDecoder::NumGraphSizes() {
  int64_t count = 0;
  for (int32_t tokens = 0; tokens < kMaxGraphTokens; tokens = GraphTokens(tokens + 1)) {
    ++count;
  }
  return count;
}

absl::StatusOr<at::Tensor> FusedDecoder::Forward(const TreePlan& plan,
                                                 absl::Span<const int32_t> slots) {
  CANOPY_RETURN_IF_ERROR(CheckPlan(plan, slots));
  const c10::DeviceGuard guard(embedding_.device());
  Graph* graph = FindGraph(plan.grid.columns);
  return graph != nullptr ? RunAsGraph(*graph, plan, slots) : RunPlain(plan, slots);
}

bool FusedDecoder::RecordNextGraph() {
  const c10::DeviceGuard guard(embedding_.device());
  int32_t tokens = GraphTokens(1);
  while (tokens < kMaxGraphTokens && graphs_.count(tokens) > 0) {
    tokens = GraphTokens(tokens + 1);
  }
  return graphs_.count(tokens) == 0 && FindGraph(tokens) != nullptr;
}

FusedDecoder::Graph* FusedDecoder::FindGraph(int32_t tokens) {
  if (!embedding_.is_cuda() || tokens > kMaxGraphTokens || !config_.experts.sparse_layers.empty()) {
    return nullptr;
  }
  const int32_t size = GraphTokens(tokens);
  if (const auto found = graphs_.find(size); found != graphs_.end()) {
    return found->second.get();
  }
  if (graph_bytes() >= kMaxGraphBytes) {
    return nullptr;
  }
  const int64_t free_before = FreeDeviceBytes();
  Graph* graph = (graphs_[size] = Record(size)).get();
  num_graphs_ = static_cast<int64_t>(graphs_.size());
  graph_bytes_ += std::max<int64_t>(free_before - FreeDeviceBytes(), 0);
  return graph;
}

at::Tensor FusedDecoder::MakeRows(int64_t rows, int64_t columns) const {
  return at::empty({SizeClass(rows), columns}, embedding_.options()).narrow(0, 0, rows);
}

FusedDecoder::Buffers FusedDecoder::MakeFinishBuffers(int64_t rows) const {
  Buffers buffers;
  buffers.hidden = MakeRows(rows, config_.hidden_size);
  buffers.normed = MakeRows(rows, config_.hidden_size);
  buffers.attended = MakeRows(rows, config_.query_size());
  const int64_t mlp_rows = std::min(rows, kMaxMlpRows);
  buffers.gate_up = MakeRows(mlp_rows, ops_->GatedScratchColumns());
  buffers.activated = MakeRows(mlp_rows, intermediate_size_);
  return buffers;
}

FusedDecoder::Buffers FusedDecoder::MakeBuffers(int64_t rows) const {
  Buffers buffers = MakeFinishBuffers(rows);
  buffers.qkv = MakeRows(rows, config_.query_size() + 2 * config_.kv_size());
  return buffers;
}

void FusedDecoder::RunToLastAttention(const Forest& forest, const Buffers& buffers) const {
  const at::Tensor visible = ops_->ListVisible(forest.exit, forest.shape);
  ops_->GatherRows(embedding_, forest.token_ids, buffers.hidden);
  for (const Layer& layer : layers_) {
    ops_->RmsNorm(buffers.hidden, layer.input_norm, buffers.normed);
    ops_->ProjectHeads(buffers.normed, layer.heads, forest.position_ids, buffers.qkv);
    ops_->TreeAttention(buffers.qkv, visible, forest.shape, buffers.attended);
    if (&layer != &layers_.back()) {
      FinishLayer(layer, buffers);
    }
  }
}

void FusedDecoder::FinishLayer(const Layer& layer, const Buffers& buffers) const {
  buffers.hidden.addmm_(buffers.attended, layer.output);
  if (layer.output_bias.defined()) {
    buffers.hidden.add_(layer.output_bias);
  }
  ops_->RmsNorm(buffers.hidden, layer.post_attention_norm, buffers.normed);
  if (layer.experts.router.defined()) {
    buffers.hidden.add_(MixExperts(buffers.normed, layer.experts, config_.experts));
  } else {
    AddMlp(layer, buffers);
  }
}

void FusedDecoder::AddMlp(const Layer& layer, const Buffers& buffers) const {
  const int64_t num_rows = buffers.hidden.size(0);
  const int64_t step = buffers.activated.size(0);
  for (int64_t begin = 0; begin < num_rows; begin += step) {
    const int64_t rows = std::min(step, num_rows - begin);
    const at::Tensor activated = buffers.activated.narrow(0, 0, rows);
    ops_->GatedProduct(buffers.normed.narrow(0, begin, rows), layer.gate_up,
                       buffers.gate_up.narrow(0, 0, rows), activated);
    buffers.hidden.narrow(0, begin, rows).addmm_(activated, layer.down);
  }
}

at::Tensor FusedDecoder::ReadRows(const Buffers& buffers, const at::Tensor& slots) const {
  const Buffers rows = MakeFinishBuffers(slots.size(0));
  ops_->GatherRows(buffers.hidden, slots, rows.hidden);
  ops_->GatherRows(buffers.attended, slots, rows.attended);
  FinishLayer(layers_.back(), rows);
  ops_->RmsNorm(rows.hidden, final_norm_, rows.normed);
  return rows.normed;
}

at::Tensor FusedDecoder::RunPlain(const TreePlan& plan, absl::Span<const int32_t> slots) const {
  IndexUpload upload;
  upload.Add(plan.grid.token_ids);
  upload.Add(plan.grid.position_ids);
  upload.Add(plan.grid.exit);
  upload.Add(slots);
  const std::vector<at::Tensor> arrays = upload.Upload(embedding_.device());
  const Buffers buffers = MakeBuffers(plan.grid.columns);
  RunToLastAttention({arrays[0], arrays[1], arrays[2], ShapeOf(plan.grid)}, buffers);
  return ReadRows(buffers, arrays[3]);
}

at::Tensor FusedDecoder::RunAsGraph(Graph& graph, const TreePlan& plan,
                                    absl::Span<const int32_t> slots) const {
  const TokenGrid& grid = plan.grid;
  const auto tokens = static_cast<size_t>(GraphTokens(grid.columns));
  // Padding: token 0 at position 0, seen by itself alone.
  std::vector<int32_t> padded(3 * tokens);
  std::copy(grid.token_ids.begin(), grid.token_ids.end(), padded.begin());
  std::copy(grid.position_ids.begin(), grid.position_ids.end(), padded.begin() + tokens);
  std::iota(std::copy(grid.exit.begin(), grid.exit.end(), padded.begin() + 2 * tokens),
            padded.end(), grid.columns);
  IndexUpload upload;
  upload.Add(padded);
  upload.Add(slots);
  const std::vector<at::Tensor> arrays = upload.Upload(embedding_.device());
  graph.arrays.copy_(arrays[0]);
  graph.recording->Replay();
  return ReadRows(graph.buffers, arrays[1]);
}

std::unique_ptr<FusedDecoder::Graph> FusedDecoder::Record(int32_t tokens) {
  if (!graph_buffers_.hidden.defined()) {
    graph_buffers_ = MakeBuffers(kMaxGraphTokens);
    graph_memory_ = std::make_unique<CudaGraphMemory>();
  }
  auto graph = std::make_unique<Graph>();
  graph->arrays = at::empty({3 * int64_t{tokens}}, embedding_.options().dtype(at::kInt)).zero_();
  const auto array = [&](int64_t index) { return graph->arrays.narrow(0, index * tokens, tokens); };
  const auto rows = [&](const at::Tensor& buffer) { return buffer.narrow(0, 0, tokens); };
  graph->buffers = {rows(graph_buffers_.hidden),  rows(graph_buffers_.normed),
                    rows(graph_buffers_.qkv),     rows(graph_buffers_.attended),
                    rows(graph_buffers_.gate_up), rows(graph_buffers_.activated)};
  // Some forest to run while recording: no token reads another.
  array(2).copy_(at::arange(tokens, graph->arrays.options()));
  // The longest path and the pairs that a forest of this size can have.
  const Forest forest = {
      array(0), array(1), array(2), {tokens, tokens, int64_t{tokens} * (tokens + 1) / 2}};
  graph->recording = std::make_unique<CudaGraph>(
      *graph_memory_, [&] { RunToLastAttention(forest, graph->buffers); });
  return graph;
}

}  // namespace canopy
