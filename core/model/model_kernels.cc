#include "core/model/model_kernels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ATen/ops/empty.h"

namespace canopy {
namespace {

// An MLP processes at most this many rows at a time. Its inner activations are by far the largest
// buffers, and larger matrix products are not faster.
constexpr int64_t kMaxMlpRows = 16'384;

int64_t DenseIntermediateSize(const ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (config.channel(layer) == ChannelKind::kGatedMlp) {
      return config.intermediate_size;
    }
  }
  return 0;
}

// Rounds up to a step of about an eighth of the size. There are then few distinct sizes, so
// LibTorch's allocator can reuse buffers of earlier forwards, and little memory is wasted.
int64_t SizeClass(int64_t rows) {
  int64_t step = 64;
  while (step * 16 < rows) {
    step *= 2;
  }
  return (rows + step - 1) / step * step;
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
  // Queries and keys are both multiplied by the rotary scale, so their products are multiplied by
  // its square. The kernels apply the scale here.
  model.score_scale =
      weights.rotary.scale * weights.rotary.scale / std::sqrt(static_cast<double>(config.head_dim));
  model.inverse_frequencies = weights.rotary.inverse;
  return model;
}

LayerBuffers FirstRows(const LayerBuffers& buffers, int64_t rows) {
  const auto first = [&](const at::Tensor& buffer) { return buffer.narrow(0, 0, rows); };
  return {first(buffers.hidden), first(buffers.normed),  first(buffers.qkv),
          first(buffers.mixed),  first(buffers.gate_up), first(buffers.activated)};
}

ModelKernels::ModelKernels(const ModelConfig& config, const at::TensorOptions& options,
                           std::unique_ptr<const KernelOps> ops)
    : config_(config),
      options_(options),
      intermediate_size_(DenseIntermediateSize(config)),
      ops_(std::move(ops)) {}

LayerBuffers ModelKernels::MakeBuffers(int64_t rows) const {
  LayerBuffers buffers = MakeFinishBuffers(rows);
  buffers.qkv = MakeRows(rows, config_.query_size() + 2 * config_.kv_size());
  return buffers;
}

LayerBuffers ModelKernels::MakeFinishBuffers(int64_t rows) const {
  LayerBuffers buffers;
  buffers.hidden = MakeRows(rows, config_.hidden_size);
  buffers.normed = MakeRows(rows, config_.hidden_size);
  buffers.mixed = MakeRows(rows, config_.query_size());
  const int64_t mlp_rows = std::min(rows, kMaxMlpRows);
  buffers.gate_up = MakeRows(mlp_rows, ops_->GatedScratchColumns());
  buffers.activated = MakeRows(mlp_rows, intermediate_size_);
  return buffers;
}

at::Tensor ModelKernels::MakeRows(int64_t rows, int64_t columns) const {
  return at::empty({SizeClass(rows), columns}, options_).narrow(0, 0, rows);
}

}  // namespace canopy
