#include "kernels/check/attention_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention/tree_attention.h"
#include "kernels/check/attention_oracle.h"
#include "kernels/check/device_buffer.h"
#include "kernels/check/element_codec.h"
#include "kernels/check/random_forest.h"
#include "kernels/reference/tree_attention_reference.h"

namespace canopy::kernels::check {
namespace {

constexpr TreeAttentionInstance kInstances[] = {
    TreeAttentionInstance::kPortable, TreeAttentionInstance::kHopper2x64,
    TreeAttentionInstance::kHopper3x64, TreeAttentionInstance::kHopper3x80};
constexpr const char* kInstanceNames[] = {"portable", "hopper 2 x 64", "hopper 3 x 64",
                                          "hopper 3 x 80"};
constexpr int64_t kGapElements = 64;
// Forests of at most this many tokens are also computed by the reference on the host.
constexpr int32_t kTwinTokens = 64;

struct Worst {
  double error = 0;
  double ratio = 0;
  double lse_error = 0;
  int64_t launches = 0;
};

class AttentionCheck {
 public:
  AttentionCheck(const AttentionCheckOptions& options, const DeviceInfo& device)
      : options_(options), device_(device), random_(options.seed) {}

  int64_t Run() {
    for (int32_t i = 0; i < options_.forests; ++i) {
      CheckForest();
    }
    std::printf("%-14s %9s %10s %12s %10s\n", "instance", "launches", "error", "to plain's",
                "LSE error");
    for (int i = 0; i < 4; ++i) {
      std::printf("%-14s %9lld %10.2e %12.2f %10.2e\n", kInstanceNames[i],
                  static_cast<long long>(worst_[i].launches), worst_[i].error, worst_[i].ratio,
                  worst_[i].lse_error);
    }
    return failures_;
  }

 private:
  int32_t Uniform(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  // Draws heads, layout and values, and fills the inputs.
  void Draw(const TokenForest& forest) {
    params_ = TreeAttentionParams();
    TreeAttentionShape& shape = params_.shape;
    shape.num_tokens = static_cast<int32_t>(forest.exit.size());
    shape.num_kv_heads = Uniform(1, 3);
    shape.num_query_heads = shape.num_kv_heads * (Uniform(0, 1) == 0 ? 2 : Uniform(1, 8));
    shape.head_dim = Uniform(0, 2) == 0 ? 64 : 128;
    shape.max_path_tokens = forest.max_path_tokens;
    shape.visible_pairs = forest.visible_pairs;
    shape.data_type = Uniform(0, 2) == 0 ? DataType::kFloat16 : DataType::kBFloat16;
    params_.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
    params_.num_multiprocessors = device_.num_multiprocessors;
    amplitude_ = Uniform(0, 2) == 0 ? 6.0F : 1.0F;
    exit_.Upload(forest.exit);
    Place(&params_.q, &params_.q_strides, shape.num_query_heads, &inputs_[0]);
    Place(&params_.k, &params_.k_strides, shape.num_kv_heads, &inputs_[1]);
    Place(&params_.v, &params_.v_strides, shape.num_kv_heads, &inputs_[2]);
  }

  // Lays out one input with NaN gaps between heads, between tokens and after the last token.
  void Place(const void** data, HeadStrides* strides, int32_t heads,
             DeviceBuffer<uint16_t>* buffer) {
    strides->head = params_.shape.head_dim + 8 * Uniform(0, 2);
    strides->token = heads * strides->head + kGapElements * Uniform(0, 1);
    buffer->Resize(params_.shape.num_tokens * strides->token + 16 * strides->token);
    buffer->Poison();
    *data = buffer->get();
    FillParams fill;
    fill.data = buffer->get();
    fill.strides = *strides;
    fill.num_tokens = params_.shape.num_tokens;
    fill.num_heads = heads;
    fill.head_dim = params_.shape.head_dim;
    fill.data_type = params_.shape.data_type;
    fill.seed = static_cast<uint32_t>(random_());
    fill.amplitude = buffer == inputs_ ? amplitude_ : 1.0F;
    Fill(fill);
  }

  void CheckForest() {
    const TokenForest forest = RandomForest(random_, options_.max_tokens);
    Draw(forest);
    const TreeAttentionShape& shape = params_.shape;
    const int64_t rows = int64_t{shape.num_tokens} * shape.num_query_heads;
    exact_.Resize(rows * shape.head_dim);
    plain_.Resize(rows * shape.head_dim);
    oracle_lse_.Resize(rows);
    const Oracle oracle{exact_.get(), oracle_lse_.get(), plain_.get()};
    RunOracle(params_, exit_.get(), oracle);
    if (shape.num_tokens <= kTwinTokens) {
      CheckOracle(forest);
    }
    const int count = device_.compute_capability == 90 ? 4 : 1;
    for (int i = 0; i < count; ++i) {
      CheckInstance(i, oracle);
    }
  }

  // Launches twice into fresh poisoned outputs, which must have the same bits.
  void CheckInstance(int index, const Oracle& oracle) {
    const TreeAttentionShape& shape = params_.shape;
    params_.instance = kInstances[index];
    const TreeAttentionWorkspace space = LayOutWorkspace(shape, params_.instance);
    workspace_.Resize(space.total_bytes);
    workspace_.Poison();
    params_.workspace = workspace_.get();
    TreeVisibilityParams visibility;
    visibility.exit = exit_.get();
    visibility.workspace = params_.workspace;
    visibility.shape = shape;
    visibility.instance = params_.instance;
    Require(LaunchTreeVisibility(visibility, nullptr), "LaunchTreeVisibility");

    const int64_t gap = kGapElements * Uniform(0, 1);
    params_.out_strides.head = shape.head_dim;
    params_.out_strides.token = int64_t{shape.num_query_heads} * shape.head_dim + gap;
    const int64_t rows = int64_t{shape.num_tokens} * shape.num_query_heads;
    const int64_t elements = (int64_t{shape.num_tokens} + 16) * params_.out_strides.token;
    for (int run = 0; run < 2; ++run) {
      outputs_[run].Resize(elements);
      outputs_[run].Poison();
      lse_[run].Resize(rows + 32);
      lse_[run].Poison();
      params_.out = outputs_[run].get();
      params_.log_sum_exp = lse_[run].get();
      Require(LaunchTreeAttention(params_, nullptr), "LaunchTreeAttention");
      Require(cudaDeviceSynchronize(), kInstanceNames[index]);
    }
    const int64_t different = CountDifferent(outputs_[0].get(), outputs_[1].get(), elements / 2) +
                              CountDifferent(lse_[0].get(), lse_[1].get(), rows + 32);
    const int64_t strayed = CountStray(gap);
    Judge(index, Compare(params_, oracle), different, strayed);
  }

  // Counts words of the output that belong to no token and are no longer poison.
  int64_t CountStray(int64_t gap) {
    const TreeAttentionShape& shape = params_.shape;
    if (shape.num_tokens > 400) {
      return 0;
    }
    const int64_t stride = params_.out_strides.token;
    const std::vector<uint16_t> all = outputs_[1].Download((shape.num_tokens + 16) * stride);
    int64_t strayed = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) {
      const bool owned = i / stride < shape.num_tokens && i % stride < stride - gap;
      strayed += !owned && all[i] != 0xFFFF;
    }
    return strayed;
  }

  void Judge(int index, const Comparison& result, int64_t different, int64_t strayed) {
    const double error = std::sqrt(result.error_squared / result.exact_squared);
    const double plain = std::sqrt(result.plain_error_squared / result.exact_squared);
    Worst& worst = worst_[index];
    ++worst.launches;
    worst.error = std::max(worst.error, error);
    worst.ratio = std::max(worst.ratio, error / std::max(plain, 1e-6));
    worst.lse_error = std::max(worst.lse_error, result.lse_error);
    // Scores have amplitude 6, so they reach about 40. They are float32 sums.
    const bool good = result.not_finite == 0 && error <= 2 * plain + 1e-6 &&
                      result.lse_error <= 1e-4 && different == 0 && strayed == 0;
    if (good) {
      return;
    }
    ++failures_;
    if (failures_ > 20) {
      return;
    }
    const TreeAttentionShape& shape = params_.shape;
    std::printf(
        "FAILED %s: %d tokens, %d / %d heads of %d, type %d: error %.2e (plain %.2e), LSE %.2e, "
        "%lld not finite, %lld not repeated, %lld strayed\n",
        kInstanceNames[index], shape.num_tokens, shape.num_query_heads, shape.num_kv_heads,
        shape.head_dim, static_cast<int>(shape.data_type), error, plain, result.lse_error,
        static_cast<long long>(result.not_finite), static_cast<long long>(different),
        static_cast<long long>(strayed));
  }

  std::vector<double> Dense(const DeviceBuffer<uint16_t>& buffer, const HeadStrides& strides,
                            int32_t heads) {
    const TreeAttentionShape& shape = params_.shape;
    const std::vector<uint16_t> bits = buffer.Download(shape.num_tokens * strides.token);
    std::vector<uint8_t> bytes(bits.size() * sizeof(uint16_t));
    std::memcpy(bytes.data(), bits.data(), bytes.size());
    const std::vector<double> all = Decode(bytes, shape.data_type);
    std::vector<double> values;
    for (int32_t token = 0; token < shape.num_tokens; ++token) {
      for (int32_t head = 0; head < heads; ++head) {
        for (int32_t i = 0; i < shape.head_dim; ++i) {
          values.push_back(all[token * strides.token + head * strides.head + i]);
        }
      }
    }
    return values;
  }

  void CheckOracle(const TokenForest& forest) {
    const TreeAttentionShape& shape = params_.shape;
    reference::TreeAttentionInput input;
    input.q = Dense(inputs_[0], params_.q_strides, shape.num_query_heads);
    input.k = Dense(inputs_[1], params_.k_strides, shape.num_kv_heads);
    input.v = Dense(inputs_[2], params_.v_strides, shape.num_kv_heads);
    input.exit = forest.exit;
    input.num_query_heads = shape.num_query_heads;
    input.num_kv_heads = shape.num_kv_heads;
    input.head_dim = shape.head_dim;
    input.scale = params_.scale;
    const reference::TreeAttentionOutput twin = reference::TreeAttention(input);
    const std::vector<double> exact = exact_.Download(twin.out.size());
    const std::vector<double> lse = oracle_lse_.Download(twin.log_sum_exp.size());
    double worst = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      worst = std::max(worst, std::abs(exact[i] - twin.out[i]));
    }
    for (size_t i = 0; i < lse.size(); ++i) {
      worst = std::max(worst, std::abs(lse[i] - twin.log_sum_exp[i]));
    }
    if (worst <= 1e-10) {
      return;
    }
    ++failures_;
    std::printf("FAILED oracle: %d tokens, off the twin by %.2e\n", shape.num_tokens, worst);
  }

  const AttentionCheckOptions options_;
  const DeviceInfo device_;
  std::mt19937 random_;
  TreeAttentionParams params_;
  float amplitude_ = 1;
  DeviceBuffer<int32_t> exit_;
  DeviceBuffer<uint16_t> inputs_[3];
  DeviceBuffer<uint16_t> outputs_[2];
  DeviceBuffer<float> lse_[2];
  DeviceBuffer<double> exact_;
  DeviceBuffer<double> plain_;
  DeviceBuffer<double> oracle_lse_;
  DeviceBuffer<char> workspace_;
  Worst worst_[4];
  int64_t failures_ = 0;
};

}  // namespace

int64_t CheckAttention(const AttentionCheckOptions& options, const DeviceInfo& device) {
  return AttentionCheck(options, device).Run();
}

}  // namespace canopy::kernels::check
