#include "kernels/check/product_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/check/device_buffer.h"
#include "kernels/check/element_codec.h"
#include "kernels/product/gated_product.h"
#include "kernels/product/head_product.h"
#include "kernels/product/logit_product.h"
#include "kernels/reference/layer_reference.h"

namespace canopy::kernels::check {
namespace {

constexpr DataType kTypes[] = {DataType::kBFloat16, DataType::kFloat16};
constexpr const char* kTypeNames[] = {"bfloat16", "float16"};
// The number of NaN elements after each array. Those after the output must not be written.
constexpr size_t kGuardElements = 4096;
// The allowed error of a sum of float32 products, relative to the sum of their magnitudes.
constexpr double kSumError = 1e-6;
constexpr double kRmsEpsilon = 1e-6;

using Values = std::vector<double>;

struct Shape {
  int32_t rows = 0;
  int32_t columns = 0;
  int32_t inner = 0;
};

// A sum of products, and the sum of their magnitudes.
struct Sum {
  double value = 0;
  double size = 0;
};

Sum Dot(const double* a, const double* b, int32_t count) {
  Sum sum;
  for (int32_t i = 0; i < count; ++i) {
    sum.value += a[i] * b[i];
    sum.size += std::abs(a[i] * b[i]);
  }
  return sum;
}

class ProductCheck {
 public:
  ProductCheck(uint32_t seed, const DeviceInfo& device) : random_(seed), device_(device) {}

  int64_t Run(int32_t rounds) {
    int64_t failures = 0;
    for (const DataType type : kTypes) {
      for (const int32_t tile_weights : {0, 128, 256}) {
        type_ = type;
        tile_weights_ = tile_weights;
        failures += CheckAll("gated_product", rounds, [this](int32_t i) { return GatedRound(i); });
        failures += CheckAll("head_product", rounds, [this](int32_t i) { return HeadRound(i); });
        if (tile_weights == 0) {
          failures += CheckAll("logit_product", rounds, [this](int32_t) { return LogitRound(); });
        }
      }
    }
    return failures;
  }

 private:
  // `round` returns its worst error as a multiple of the allowed error.
  template <typename Round>
  int64_t CheckAll(const char* name, int32_t rounds, Round round) {
    double worst = 0;
    int32_t failed = 0;
    for (int32_t i = 0; i < rounds; ++i) {
      const double error = round(i);
      failed += !(error <= 1);
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
    std::printf("%-14s %-9s tile %3d  worst error %.2f of the allowed%s\n", name,
                kTypeNames[static_cast<int>(type_)], tile_weights_, worst,
                failed > 0 ? "  FAILED" : "");
    return failed;
  }

  int32_t Uniform(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  // Returns a deep shape, one with more tiles than multiprocessors, or one that ends within a tile.
  Shape DrawShape(int32_t round) {
    switch (round % 3) {
      case 0:
        return {Uniform(1, 300), 8 * Uniform(1, 40), 8 * Uniform(1, 200)};
      case 1:
        return {Uniform(2000, 6000), 8 * Uniform(60, 140), 8 * Uniform(1, 4)};
      default:
        return {Uniform(1, 700), 64 * Uniform(1, 6), 64 * Uniform(1, 6)};
    }
  }

  Values Draw(size_t count, double amplitude) {
    std::normal_distribution<double> normal(0, amplitude);
    Values values(count);
    for (double& value : values) {
      value = normal(random_);
    }
    return Decode(Encode(values, type_), type_);
  }

  void Upload(const Values& values, DeviceBuffer<uint8_t>* buffer) {
    std::vector<uint8_t> bits = Encode(values, type_);
    bits.resize(bits.size() + kGuardElements * ElementBytes(type_), 0xFF);
    buffer->Upload(bits);
  }

  void PoisonOutput(size_t size) {
    out_.Resize((size + kGuardElements) * ElementBytes(type_));
    out_.Poison();
  }

  // Returns an empty list if memory after the output was written.
  Values ReadOutput(size_t size) {
    std::vector<uint8_t> bits = out_.Download((size + kGuardElements) * ElementBytes(type_));
    const auto end = bits.begin() + static_cast<int64_t>(size * ElementBytes(type_));
    if (std::any_of(end, bits.end(), [](uint8_t byte) { return byte != 0xFF; })) {
      return {};
    }
    bits.erase(end, bits.end());
    return Decode(bits, type_);
  }

  // Returns the error of one element as a multiple of one rounding plus `further`.
  double Error(double found, double expected, double further) const {
    // Half of the smallest positive number in half precision.
    const double least = type_ == DataType::kFloat16 ? 0x1p-25 : 0;
    return std::abs(found - expected) /
           (0.51 * Epsilon(type_) * std::abs(expected) + further + least);
  }

  double GatedRound(int32_t round) {
    const Shape shape = DrawShape(round);
    const Values rows = Draw(size_t(shape.rows) * shape.inner, 1);
    const Values weight = Draw(size_t{2} * shape.columns * shape.inner,
                               3 / std::sqrt(static_cast<double>(shape.inner)));
    Upload(rows, &rows_);
    Upload(weight, &weight_);
    PoisonOutput(size_t(shape.rows) * shape.columns);
    GatedProductParams params;
    params.rows = rows_.get();
    params.weight = weight_.get();
    params.out = out_.get();
    params.num_rows = shape.rows;
    params.columns = shape.columns;
    params.inner = shape.inner;
    params.data_type = type_;
    params.num_multiprocessors = device_.num_multiprocessors;
    params.tile_weights = tile_weights_;
    Require(LaunchGatedProduct(params, nullptr), "LaunchGatedProduct");
    Require(cudaDeviceSynchronize(), "GatedProduct");

    const Values found = ReadOutput(size_t(shape.rows) * shape.columns);
    if (found.empty()) {
      return NAN;
    }
    double worst = 0;
    for (int32_t row = 0; row < shape.rows; ++row) {
      for (int32_t column = 0; column < shape.columns; ++column) {
        const double* inputs = &rows[size_t(row) * shape.inner];
        const Sum gate = Dot(inputs, &weight[size_t(column) * shape.inner], shape.inner);
        const Sum up =
            Dot(inputs, &weight[size_t(shape.columns + column) * shape.inner], shape.inner);
        const double expected = reference::SiluMul({gate.value, up.value})[0];
        // The slope of SiLU is at most 1.1, and its magnitude is at most that of its argument.
        const double error = Error(found[size_t(row) * shape.columns + column], expected,
                                   1e-6 * (1 + std::abs(gate.value)) * std::abs(expected) +
                                       kSumError * (1.1 * gate.size * std::abs(up.value) +
                                                    std::abs(gate.value) * up.size));
        if (!(error <= worst)) {
          worst = error;
        }
      }
    }
    return worst;
  }

  // Returns the expected result of one head of one row.
  Values ExpectedHead(Values head, const Values& norm, bool turned, int32_t position,
                      const std::vector<float>& frequencies) const {
    if (!turned) {
      return head;
    }
    if (!norm.empty()) {
      head = reference::RmsNorm(head, norm, kRmsEpsilon);
    }
    return reference::Rope(head, position, frequencies);
  }

  static double NormGain(const Values& head, const Values& norm) {
    double squares = 0;
    double largest = 0;
    for (size_t i = 0; i < head.size(); ++i) {
      squares += head[i] * head[i];
      largest = std::max(largest, std::abs(norm[i]));
    }
    return 2 * largest / std::sqrt(squares / static_cast<double>(head.size()) + kRmsEpsilon);
  }

  double HeadRound(int32_t round) {
    Shape shape = DrawShape(round);
    const int32_t dim = Uniform(0, 1) == 0 ? 64 : 128;
    const int32_t kv_heads = Uniform(1, 3);
    const int32_t query_heads = kv_heads * Uniform(1, 3);
    shape.columns = (query_heads + 2 * kv_heads) * dim;
    const bool has_bias = Uniform(0, 1) == 0;
    const bool has_norm = Uniform(0, 1) == 0;
    const Values rows = Draw(size_t(shape.rows) * shape.inner, 1);
    const Values weight =
        Draw(size_t(shape.columns) * shape.inner, 1 / std::sqrt(static_cast<double>(shape.inner)));
    const Values bias = Draw(has_bias ? shape.columns : 0, 1);
    const Values norms[2] = {Draw(has_norm ? dim : 0, 1), Draw(has_norm ? dim : 0, 1)};
    std::vector<int32_t> positions(shape.rows);
    for (int32_t& position : positions) {
      position = Uniform(0, 40000);
    }
    std::vector<float> frequencies(dim / 2);
    for (int32_t i = 0; i < dim / 2; ++i) {
      frequencies[i] = static_cast<float>(std::pow(1e6, -2.0 * i / dim));
    }
    Upload(rows, &rows_);
    Upload(weight, &weight_);
    Upload(bias, &bias_);
    Upload(norms[0], &norms_[0]);
    Upload(norms[1], &norms_[1]);
    positions_.Upload(positions);
    frequencies_.Upload(frequencies);
    PoisonOutput(size_t(shape.rows) * shape.columns);
    HeadProductParams params;
    params.rows = rows_.get();
    params.weight = weight_.get();
    params.bias = has_bias ? bias_.get() : nullptr;
    params.q_weight = has_norm ? norms_[0].get() : nullptr;
    params.k_weight = has_norm ? norms_[1].get() : nullptr;
    params.position_ids = positions_.get();
    params.inverse_frequencies = frequencies_.get();
    params.out = out_.get();
    params.num_rows = shape.rows;
    params.inner = shape.inner;
    params.num_query_heads = query_heads;
    params.num_kv_heads = kv_heads;
    params.head_dim = dim;
    params.epsilon = kRmsEpsilon;
    params.data_type = type_;
    params.num_multiprocessors = device_.num_multiprocessors;
    params.tile_weights = tile_weights_;
    Require(LaunchHeadProduct(params, nullptr), "LaunchHeadProduct");
    Require(cudaDeviceSynchronize(), "HeadProduct");

    const Values found = ReadOutput(size_t(shape.rows) * shape.columns);
    if (found.empty()) {
      return NAN;
    }
    double worst = 0;
    for (int32_t row = 0; row < shape.rows; ++row) {
      for (int32_t head = 0; head < query_heads + 2 * kv_heads; ++head) {
        Values sums(dim);
        double size = 0;
        for (int32_t i = 0; i < dim; ++i) {
          const int32_t column = head * dim + i;
          const Sum sum = Dot(&rows[size_t(row) * shape.inner],
                              &weight[size_t(column) * shape.inner], shape.inner);
          sums[i] = sum.value + (has_bias ? bias[column] : 0);
          size = std::max(size, sum.size);
        }
        const bool turned = head < query_heads + kv_heads;
        const Values expected = ExpectedHead(sums, norms[head < query_heads ? 0 : 1], turned,
                                             positions[row], frequencies);
        // The factor by which the norm multiplies sums, and thus their errors.
        const double gain =
            turned && has_norm ? NormGain(sums, norms[head < query_heads ? 0 : 1]) : 1;
        double largest = 0;
        for (const double value : expected) {
          largest = std::max(largest, std::abs(value));
        }
        for (int32_t i = 0; i < dim; ++i) {
          const double error = Error(found[size_t(row) * shape.columns + head * dim + i],
                                     expected[i], 4e-6 * largest + kSumError * size * gain);
          if (!(error <= worst)) {
            worst = error;
          }
        }
      }
    }
    return worst;
  }

  double LogitRound() {
    const bool is_long = Uniform(0, 2) == 0;
    const Shape shape = {is_long ? Uniform(1, 40) : Uniform(1, 700),
                         is_long ? Uniform(1, 40'000) : Uniform(1, 900), 8 * Uniform(1, 30)};
    const int32_t num_targets = Uniform(0, 300);
    const double temperature = Uniform(0, 1) == 0 ? 1 : Uniform(1, 30) * 0.1;
    const Values rows = Draw(size_t(shape.rows) * shape.inner, 1);
    const Values weight = Draw(size_t(shape.columns) * shape.inner,
                               Uniform(1, 8) / std::sqrt(static_cast<double>(shape.inner)));
    std::vector<int32_t> target_rows(num_targets + 1);
    std::vector<int32_t> target_columns(num_targets + 1);
    for (int32_t i = 0; i < num_targets; ++i) {
      target_rows[i] = Uniform(0, shape.rows - 1);
      target_columns[i] = Uniform(0, shape.columns - 1);
    }
    Upload(rows, &rows_);
    Upload(weight, &weight_);
    positions_.Upload(target_rows);
    columns_.Upload(target_columns);
    workspace_.Resize(static_cast<size_t>(LogitProductWorkspaceBytes(shape.rows, shape.columns)));
    workspace_.Poison();
    // There are four results per row, then the targets.
    const size_t size = size_t{4} * shape.rows + num_targets;
    logits_.Resize(size + kGuardElements);
    logits_.Poison();
    LogitProductParams params;
    params.rows = rows_.get();
    params.weight = weight_.get();
    params.target_rows = positions_.get();
    params.target_columns = columns_.get();
    params.workspace = workspace_.get();
    params.inverse_temperature = static_cast<float>(1 / temperature);
    params.log_sum_exp = logits_.get();
    params.entropy = params.log_sum_exp + shape.rows;
    params.min_logit = params.entropy + shape.rows;
    params.max_logit = params.min_logit + shape.rows;
    params.target_logits = params.max_logit + shape.rows;
    params.num_rows = shape.rows;
    params.columns = shape.columns;
    params.inner = shape.inner;
    params.num_targets = num_targets;
    params.data_type = type_;
    params.num_multiprocessors = device_.num_multiprocessors;
    Require(LaunchLogitProduct(params, nullptr), "LaunchLogitProduct");
    Require(cudaDeviceSynchronize(), "LogitProduct");

    const std::vector<float> found = logits_.Download(size + kGuardElements);
    for (size_t i = size; i < found.size(); ++i) {
      if (!std::isnan(found[i])) {
        return NAN;
      }
    }
    double worst = 0;
    const auto compare = [&](size_t index, double expected, double allowed) {
      const double error = std::abs(found[index] - expected) / allowed;
      worst = error <= worst ? worst : error;
    };
    for (int32_t row = 0; row < shape.rows; ++row) {
      Values logits(shape.columns);
      double size_of_sums = 0;
      for (int32_t column = 0; column < shape.columns; ++column) {
        const Sum sum = Dot(&rows[size_t(row) * shape.inner], &weight[size_t(column) * shape.inner],
                            shape.inner);
        logits[column] = sum.value;
        size_of_sums = std::max(size_of_sums, sum.size);
      }
      const reference::LogitStats stats = reference::ReadLogits(logits, temperature);
      const double logit_error = kSumError * size_of_sums + 1e-7;
      const double scaled_error = logit_error / temperature;
      const double largest =
          std::max({1.0, std::abs(stats.max_logit), std::abs(stats.min_logit)}) / temperature;
      const double allowed = scaled_error + 4e-6 * std::max(1.0, largest);
      compare(row, stats.log_sum_exp, allowed);
      // The entropy changes by at most the spread of the logits times their error.
      compare(size_t(shape.rows) + row, stats.entropy, allowed * std::max(1.0, 2 * largest));
      compare(size_t{2} * shape.rows + row, stats.min_logit, logit_error);
      compare(size_t{3} * shape.rows + row, stats.max_logit, logit_error);
      for (int32_t i = 0; i < num_targets; ++i) {
        if (target_rows[i] == row) {
          compare(size_t{4} * shape.rows + i, logits[target_columns[i]], logit_error);
        }
      }
    }
    return worst;
  }

  std::mt19937 random_;
  const DeviceInfo device_;
  DeviceBuffer<uint8_t> rows_;
  DeviceBuffer<uint8_t> weight_;
  DeviceBuffer<uint8_t> bias_;
  DeviceBuffer<uint8_t> norms_[2];
  DeviceBuffer<uint8_t> out_;
  DeviceBuffer<uint8_t> workspace_;
  DeviceBuffer<float> logits_;
  DeviceBuffer<int32_t> positions_;
  DeviceBuffer<int32_t> columns_;
  DeviceBuffer<float> frequencies_;
  DataType type_ = DataType::kBFloat16;
  int32_t tile_weights_ = 0;
};

}  // namespace

int64_t CheckProducts(uint32_t seed, int32_t rounds, const DeviceInfo& device) {
  return device.compute_capability == 90 ? ProductCheck(seed, device).Run(rounds) : 0;
}

}  // namespace canopy::kernels::check
