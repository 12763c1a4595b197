// Measures the kernels at the shapes of Qwen3-0.6B (16 query and 8 kv heads of 128, bfloat16). Tree
// attention is reported in useful TFLOP/s = 4 x head_dim x query heads x visible pairs / time, and
// the layer kernels in TB/s of the bytes that must be moved.
//
// Usage: `kernels_benchmark [all | hopper | small]`. "all" measures every instance of tree
// attention instead of the chosen one; "hopper" measures only the Hopper instances and no layer
// kernels; "small" measures forests of few query tiles.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/tree_attention.h"
#include "kernels/bench/graph_timer.h"
#include "kernels/check/attention_oracle.h"
#include "kernels/check/device_buffer.h"
#include "kernels/check/random_forest.h"
#include "kernels/device.h"
#include "kernels/product/logit_stats.h"
#include "kernels/rows/qk_norm_rope.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/row_gather.h"
#include "kernels/rows/silu_mul.h"

namespace canopy::kernels::bench {
namespace {

using check::DeviceBuffer;
using check::Require;
using check::TokenForest;

constexpr int32_t kQueryHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kHeadDim = 128;
constexpr int32_t kAllHeads = kQueryHeads + 2 * kKvHeads;

struct Heads {
  int32_t query = kQueryHeads;
  int32_t kv = kKvHeads;
  int32_t dim = kHeadDim;
  DataType data_type = DataType::kBFloat16;
};
constexpr const char* kInstanceNames[] = {"portable", "2 x 64", "3 x 64", "3 x 80"};

struct Case {
  std::string name;
  TokenForest forest;
};

// Returns trees with prefixes of 500 to 1400 tokens and leaves of 10 to 120 tokens.
TokenForest RaggedForest() {
  std::mt19937 random(7);
  const auto uniform = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  check::ForestBuilder builder;
  for (int tree = 0; tree < 24; ++tree) {
    builder.ReturnTo(0);
    const int32_t prefix = uniform(500, 1400);
    builder.Grow(prefix);
    for (int leaf = 0; leaf < 64; ++leaf) {
      builder.ReturnTo(prefix);
      builder.Grow(uniform(10, 120));
    }
  }
  return builder.Build();
}

// Returns a state of 400 tokens with 5 questions of 40 tokens and 4 candidates of 16 tokens each.
TokenForest TypedForest() {
  check::ForestBuilder builder;
  builder.Grow(400);
  for (int question = 0; question < 5; ++question) {
    builder.ReturnTo(400);
    builder.Grow(40);
    for (int candidate = 0; candidate < 4; ++candidate) {
      builder.ReturnTo(440);
      builder.Grow(16);
    }
  }
  return builder.Build();
}

std::vector<Case> Cases() {
  return {{"S 100 + 4 x 16", check::WideForest(1, 100, 4, 16)},
          {"A 490 + 64 x 18", check::WideForest(1, 490, 64, 18)},
          {"B 1024 + 255 x 32", check::WideForest(1, 1024, 255, 32)},
          {"C 32 x (1024 + 64 x 64)", check::WideForest(32, 1024, 64, 64)},
          {"D deep, 128 leaves", check::DeepForest(1, 256, 7, 16)},
          {"E 16 x deep", check::DeepForest(16, 256, 7, 16)},
          {"F 4 chains of 4096", check::WideForest(4, 4096, 0, 0)},
          {"G 24 ragged trees", RaggedForest()}};
}

// Returns forests with fewer query tiles than a GPU has multiprocessors.
std::vector<Case> SmallCases() {
  std::vector<Case> cases = {{"S 100 + 4 x 16", check::WideForest(1, 100, 4, 16)},
                             {"250 + 4 x 16", check::WideForest(1, 250, 4, 16)},
                             {"500 + 4 x 16", check::WideForest(1, 500, 4, 16)},
                             {"800 + 4 x 16", check::WideForest(1, 800, 4, 16)},
                             {"T typed", TypedForest()}};
  for (const int32_t tokens : {128, 192, 256, 320, 448, 512, 640, 768, 960}) {
    cases.push_back({"chain of " + std::to_string(tokens), check::WideForest(1, tokens, 0, 0)});
  }
  return cases;
}

void FillAll(DeviceBuffer<uint16_t>* buffer, int32_t rows, int32_t columns,
             DataType data_type = DataType::kBFloat16) {
  buffer->Resize(static_cast<size_t>(rows) * columns);
  check::FillParams fill;
  fill.data = buffer->get();
  fill.strides = {columns, columns};
  fill.num_tokens = rows;
  fill.num_heads = 1;
  fill.head_dim = columns;
  fill.data_type = data_type;
  fill.seed = 1;
  check::Fill(fill);
}

class AttentionCase {
 public:
  AttentionCase(const Case& item, const Heads& heads, const DeviceInfo& device) : item_(item) {
    TreeAttentionShape& shape = params_.shape;
    shape.num_tokens = static_cast<int32_t>(item.forest.exit.size());
    shape.num_query_heads = heads.query;
    shape.num_kv_heads = heads.kv;
    shape.head_dim = heads.dim;
    shape.max_path_tokens = item.forest.max_path_tokens;
    shape.visible_pairs = item.forest.visible_pairs;
    shape.data_type = heads.data_type;
    // The layout is that of a fused projection: q, k and v are adjacent in a token's row.
    const int32_t row = (heads.query + 2 * heads.kv) * heads.dim;
    const int32_t out_row = heads.query * heads.dim;
    FillAll(&qkv_, shape.num_tokens, row, heads.data_type);
    out_.Resize(static_cast<size_t>(shape.num_tokens) * out_row);
    lse_.Resize(static_cast<size_t>(shape.num_tokens) * heads.query);
    exit_.Upload(item.forest.exit);
    params_.q = qkv_.get();
    params_.k = qkv_.get() + out_row;
    params_.v = qkv_.get() + out_row + heads.kv * heads.dim;
    params_.q_strides = {row, heads.dim};
    params_.k_strides = params_.q_strides;
    params_.v_strides = params_.q_strides;
    params_.out = out_.get();
    params_.out_strides = {out_row, heads.dim};
    params_.log_sum_exp = lse_.get();
    params_.num_multiprocessors = device.num_multiprocessors;
    params_.scale = 1.0F / std::sqrt(static_cast<float>(heads.dim));
  }

  void Run(TreeAttentionInstance instance) {
    params_.instance = instance;
    workspace_.Resize(LayOutWorkspace(params_.shape, instance).total_bytes);
    params_.workspace = workspace_.get();
    TreeVisibilityParams visibility;
    visibility.exit = exit_.get();
    visibility.workspace = params_.workspace;
    visibility.shape = params_.shape;
    visibility.instance = instance;
    const Timing lists = TimeGraph(
        [&](cudaStream_t stream) { return LaunchTreeVisibility(visibility, stream); }, false);
    const Timing attention =
        TimeGraph([&](cudaStream_t stream) { return LaunchTreeAttention(params_, stream); });
    const TreeAttentionShape& shape = params_.shape;
    const double useful =
        4.0 * shape.head_dim * shape.num_query_heads * static_cast<double>(shape.visible_pairs);
    std::printf("%-24s %8d %2d/%2d %4d %-9s %9.4f %9.4f %7.0f %7.0f %9.1f\n", item_.name.c_str(),
                shape.num_tokens, shape.num_query_heads, shape.num_kv_heads, shape.head_dim,
                kInstanceNames[static_cast<int>(instance)], attention.burst_ms,
                attention.sustained_ms, useful / attention.burst_ms / 1e9,
                useful / attention.sustained_ms / 1e9, lists.burst_ms * 1e3);
    std::fflush(stdout);
  }

  TreeAttentionInstance Choose(const DeviceInfo& device) const {
    return ChooseInstance(params_.shape, device.compute_capability, device.num_multiprocessors);
  }

 private:
  const Case& item_;
  TreeAttentionParams params_;
  DeviceBuffer<uint16_t> qkv_;
  DeviceBuffer<uint16_t> out_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<int32_t> exit_;
  DeviceBuffer<char> workspace_;
};

// Measures the heads of other models on case C.
void BenchOtherHeads(const DeviceInfo& device) {
  const Case item = {"C, other heads", check::WideForest(32, 1024, 64, 64)};
  for (const Heads& heads :
       {Heads{16, 8, 128, DataType::kFloat16}, Heads{8, 8, 128}, Heads{32, 8, 128},
        Heads{24, 8, 128}, Heads{64, 8, 128}, Heads{16, 8, 64}, Heads{32, 8, 64}}) {
    AttentionCase attention(item, heads, device);
    attention.Run(attention.Choose(device));
  }
}

void BenchAttention(const DeviceInfo& device, const std::string& which) {
  std::printf("%-24s %8s %5s %4s %-9s %9s %9s %7s %7s %9s\n", "tree attention", "tokens", "heads",
              "dim", "instance", "burst ms", "sust. ms", "TFLOP/s", "sust.", "lists us");
  for (const Case& item : Cases()) {
    AttentionCase attention(item, Heads(), device);
    if (which.empty()) {
      attention.Run(attention.Choose(device));
      continue;
    }
    for (const auto instance :
         {TreeAttentionInstance::kPortable, TreeAttentionInstance::kHopper2x64,
          TreeAttentionInstance::kHopper3x64, TreeAttentionInstance::kHopper3x80}) {
      const bool portable = instance == TreeAttentionInstance::kPortable;
      if (portable && which == "hopper") {
        continue;
      }
      if (!portable && device.compute_capability != 90) {
        break;
      }
      attention.Run(instance);
    }
  }
}

void BenchSmallForests(const DeviceInfo& device) {
  for (const Case& item : SmallCases()) {
    AttentionCase attention(item, Heads(), device);
    attention.Run(attention.Choose(device));
  }
}

void Report(const char* name, double bytes,
            const std::function<cudaError_t(cudaStream_t)>& launch) {
  const Timing timing = TimeGraph(launch);
  std::printf("%-24s %9.4f ms %7.2f TB/s, sustained %7.2f TB/s\n", name, timing.burst_ms,
              bytes / timing.burst_ms / 1e9, bytes / timing.sustained_ms / 1e9);
  std::fflush(stdout);
}

void BenchLayers(int32_t rows) {
  constexpr int32_t kHidden = 1024;
  constexpr int32_t kIntermediate = 3072;
  constexpr double kElement = 2;
  std::printf("\nlayer kernels, %d rows, bfloat16\n", rows);
  DeviceBuffer<uint16_t> a;
  DeviceBuffer<uint16_t> b;
  DeviceBuffer<uint16_t> out;
  DeviceBuffer<uint16_t> weight;
  FillAll(&a, rows, 2 * kIntermediate);
  FillAll(&b, rows, kHidden);
  FillAll(&weight, 1, kHidden);
  out.Resize(size_t(rows) * kIntermediate);
  const double hidden_bytes = double(rows) * kHidden * kElement;

  Report("copy", 2 * hidden_bytes, [&](cudaStream_t stream) {
    return cudaMemcpyAsync(out.get(), b.get(), static_cast<size_t>(hidden_bytes),
                           cudaMemcpyDeviceToDevice, stream);
  });
  RmsNormParams norm;
  norm.residual = a.get();
  norm.weight = weight.get();
  norm.out = out.get();
  norm.rows = rows;
  norm.columns = kHidden;
  norm.epsilon = 1e-6F;
  Report("rms_norm", 2 * hidden_bytes,
         [&](cudaStream_t stream) { return LaunchRmsNorm(norm, stream); });
  norm.delta = b.get();
  Report("rms_norm + add", 4 * hidden_bytes,
         [&](cudaStream_t stream) { return LaunchRmsNorm(norm, stream); });

  SiluMulParams silu;
  silu.gate_up = a.get();
  silu.out = out.get();
  silu.rows = rows;
  silu.columns = kIntermediate;
  Report("silu_mul", double(rows) * 3 * kIntermediate * kElement,
         [&](cudaStream_t stream) { return LaunchSiluMul(silu, stream); });

  std::vector<int32_t> indices(rows);
  std::mt19937 random(1);
  for (int32_t i = 0; i < rows; ++i) {
    indices[i] = i;
  }
  DeviceBuffer<int32_t> positions;
  std::vector<int32_t> position_ids(rows);
  for (int32_t i = 0; i < rows; ++i) {
    position_ids[i] = i % 1088;
  }
  positions.Upload(position_ids);
  std::vector<float> inverse_frequencies(kHeadDim / 2);
  for (int32_t i = 0; i < kHeadDim / 2; ++i) {
    inverse_frequencies[i] = static_cast<float>(std::pow(1e6, -2.0 * i / kHeadDim));
  }
  DeviceBuffer<float> frequencies;
  frequencies.Upload(inverse_frequencies);
  QkNormRopeParams rope;
  rope.q = a.get();
  rope.k = a.get() + kQueryHeads * kHeadDim;
  rope.q_weight = weight.get();
  rope.k_weight = weight.get();
  rope.position_ids = positions.get();
  rope.inverse_frequencies = frequencies.get();
  rope.q_token_stride = kAllHeads * kHeadDim;
  rope.k_token_stride = rope.q_token_stride;
  rope.num_tokens = rows;
  rope.num_query_heads = kQueryHeads;
  rope.num_kv_heads = kKvHeads;
  rope.head_dim = kHeadDim;
  rope.epsilon = 1e-6F;
  Report("qk_norm_rope", 2.0 * rows * (kQueryHeads + kKvHeads) * kHeadDim * kElement,
         [&](cudaStream_t stream) { return LaunchQkNormRope(rope, stream); });

  for (int32_t i = rows - 1; i > 0; --i) {
    std::swap(indices[i], indices[std::uniform_int_distribution<int32_t>(0, i)(random)]);
  }
  DeviceBuffer<int32_t> gathered;
  gathered.Upload(indices);
  RowGatherParams gather;
  gather.source = b.get();
  gather.indices = gathered.get();
  gather.out = out.get();
  gather.source_stride_bytes = kHidden * 2;
  gather.rows = rows;
  gather.row_bytes = kHidden * 2;
  Report("row_gather", 2 * hidden_bytes,
         [&](cudaStream_t stream) { return LaunchRowGather(gather, stream); });
}

// Measures a chunk of the language-model head with a vocabulary of 151,936 tokens.
void BenchLogitStats() {
  constexpr int32_t kRows = 1280;
  constexpr int32_t kWords = 151'936;
  DeviceBuffer<float> logits(size_t{kRows} * kWords);
  DeviceBuffer<float> out(size_t{4} * kRows);
  Require(cudaMemset(logits.get(), 0, logits.size() * sizeof(float)), "zero logits");
  LogitStatsParams params;
  params.logits = logits.get();
  params.log_sum_exp = out.get();
  params.rows = kRows;
  params.columns = kWords;
  const double bytes = static_cast<double>(logits.size()) * sizeof(float);
  std::printf("\nhead kernels, %d rows of %d, float32\n", kRows, kWords);
  Report("logit_stats", bytes,
         [&](cudaStream_t stream) { return LaunchLogitStats(params, stream); });
  params.entropy = out.get() + kRows;
  params.min_logit = params.entropy + kRows;
  params.max_logit = params.min_logit + kRows;
  Report("logit_stats, all", bytes,
         [&](cudaStream_t stream) { return LaunchLogitStats(params, stream); });
}

}  // namespace
}  // namespace canopy::kernels::bench

int main(int argc, char** argv) {
  int devices = 0;
  if (!canopy::kernels::IsBuilt() || cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no CUDA device, or built without nvcc: nothing to measure\n");
    return 0;
  }
  canopy::kernels::DeviceInfo device;
  canopy::kernels::check::Require(canopy::kernels::Init(&device), "Init");
  const std::string which = argc > 1 ? argv[1] : "";
  if (which == "small") {
    canopy::kernels::bench::BenchSmallForests(device);
    return 0;
  }
  canopy::kernels::bench::BenchAttention(device, which);
  if (which == "hopper") {
    return 0;
  }
  canopy::kernels::bench::BenchOtherHeads(device);
  canopy::kernels::bench::BenchLayers(163840);
  canopy::kernels::bench::BenchLayers(164);
  canopy::kernels::bench::BenchLogitStats();
  return 0;
}
