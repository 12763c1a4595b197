#include "kernels/check/layer_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/check/device_buffer.h"
#include "kernels/check/element_codec.h"
#include "kernels/product/logit_ranks.h"
#include "kernels/product/logit_stats.h"
#include "kernels/reference/layer_reference.h"
#include "kernels/rows/qk_norm_rope.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/row_gather.h"
#include "kernels/rows/silu_mul.h"

namespace canopy::kernels::check {
namespace {

constexpr DataType kTypes[] = {DataType::kBFloat16, DataType::kFloat16, DataType::kFloat32};
constexpr const char* kTypeNames[] = {"bfloat16", "float16", "float32"};
constexpr double kRmsEpsilon = 1e-6;
// The number of bytes after each output that must not be written.
constexpr size_t kGuardBytes = 256;

using Values = std::vector<double>;

class LayerCheck {
 public:
  LayerCheck(uint32_t seed, int32_t rounds) : random_(seed), rounds_(rounds) {}

  int64_t Run() {
    for (const DataType type : kTypes) {
      type_ = type;
      CheckAll("rms_norm", [this] { return RmsNormRound(false); });
      CheckAll("rms_norm + add", [this] { return RmsNormRound(true); });
      CheckAll("qk_norm_rope", [this] { return QkNormRopeRound(true); });
      CheckAll("qk_rope", [this] { return QkNormRopeRound(false); });
      CheckAll("silu_mul", [this] { return SiluMulRound(); });
      CheckAll("row_gather", [this] { return RowGatherRound(); });
    }
    CheckAll("logit_stats", [this] { return LogitStatsRound(); });
    CheckAll("logit_ranks", [this] { return LogitRanksRound(); });
    return failures_;
  }

 private:
  int32_t Uniform(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  // Returns normal values that the type can represent exactly.
  Values Draw(size_t count, double amplitude = 1) {
    std::normal_distribution<double> normal(0, amplitude);
    Values values(count);
    for (double& value : values) {
      value = normal(random_);
    }
    return Decode(Encode(values, type_), type_);
  }

  // `round` returns its worst error as a multiple of the allowed error.
  template <typename Round>
  void CheckAll(const char* name, Round round) {
    double worst = 0;
    int32_t failed = 0;
    for (int32_t i = 0; i < rounds_; ++i) {
      const double error = round();
      failed += !(error <= 1);
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
    failures_ += failed;
    std::printf("%-14s %-9s worst error %.2f of the allowed%s\n", name,
                kTypeNames[static_cast<int>(type_)], worst, failed > 0 ? "  FAILED" : "");
  }

  void Upload(const Values& values, DeviceBuffer<uint8_t>* buffer) {
    buffer->Upload(Encode(values, type_));
  }
  void Poison(size_t count, DeviceBuffer<uint8_t>* buffer) {
    buffer->Resize(count * ElementBytes(type_) + kGuardBytes);
    buffer->Poison();
  }

  // Returns the worst error as a multiple of the allowed error: one rounding of the type, and a few
  // float32 roundings of the row's largest value. Returns NaN if the guard after the output was
  // written.
  double Error(const DeviceBuffer<uint8_t>& buffer, const Values& expected, size_t row_size,
               bool guarded) {
    const size_t bytes = expected.size() * ElementBytes(type_);
    std::vector<uint8_t> bits = buffer.Download(bytes + (guarded ? kGuardBytes : 0));
    for (size_t i = bytes; i < bits.size(); ++i) {
      if (bits[i] != 0xFF) {
        return NAN;
      }
    }
    bits.resize(bytes);
    const Values found = Decode(bits, type_);
    const double rounding = Epsilon(type_) * (type_ == DataType::kFloat32 ? 4 : 0.51);
    // Half of the smallest positive number in half precision.
    const double least = type_ == DataType::kFloat16 ? 0x1p-25 : 0;
    double worst = 0;
    for (size_t row = 0; row < expected.size(); row += row_size) {
      double largest = 0;
      for (size_t i = 0; i < row_size; ++i) {
        largest = std::max(largest, std::abs(expected[row + i]));
      }
      for (size_t i = row; i < row + row_size; ++i) {
        const double allowed = rounding * std::abs(expected[i]) + 2e-6 * largest + least;
        const double error = std::abs(found[i] - expected[i]) / allowed;
        if (!(error <= worst)) {
          worst = error;
        }
      }
    }
    return worst;
  }

  double RmsNormRound(bool add) {
    const int32_t rows = Uniform(1, 40);
    const int32_t columns = 8 * (Uniform(0, 2) == 0 ? Uniform(1, 4096) : Uniform(1, 160));
    const size_t size = static_cast<size_t>(rows) * columns;
    Values residual = Draw(size, Uniform(0, 1) == 0 ? 1 : 1e-3);
    const Values delta = Draw(size);
    const Values weight = Draw(columns);
    Upload(residual, &a_);
    Upload(delta, &b_);
    Upload(weight, &c_);
    Poison(size, &out_);
    RmsNormParams params;
    params.residual = a_.get();
    params.delta = add ? b_.get() : nullptr;
    params.weight = c_.get();
    params.out = out_.get();
    params.rows = rows;
    params.columns = columns;
    params.epsilon = kRmsEpsilon;
    params.data_type = type_;
    Require(LaunchRmsNorm(params, nullptr), "LaunchRmsNorm");
    Require(cudaDeviceSynchronize(), "RmsNorm");
    double sum_error = 0;
    if (add) {
      for (size_t i = 0; i < size; ++i) {
        residual[i] += delta[i];
      }
      sum_error = Error(a_, residual, columns, false);
      residual = Decode(a_.Download(size * ElementBytes(type_)), type_);
    }
    Values expected;
    for (int32_t row = 0; row < rows; ++row) {
      const auto begin = residual.begin() + static_cast<int64_t>(row) * columns;
      const Values out = reference::RmsNorm(Values(begin, begin + columns), weight, kRmsEpsilon);
      expected.insert(expected.end(), out.begin(), out.end());
    }
    return std::max(sum_error, Error(out_, expected, columns, true));
  }

  // Normalizes (unless `weight` is empty) and rotates the query or key heads in `qkv`, in place.
  void TurnHeads(const Values& weight, const std::vector<int32_t>& positions,
                 const std::vector<float>& frequencies, int32_t first_head, int32_t num_heads,
                 int32_t all_heads, Values* qkv) {
    const size_t dim = frequencies.size() * 2;
    for (size_t token = 0; token < positions.size(); ++token) {
      for (int32_t head = first_head; head < first_head + num_heads; ++head) {
        const auto begin = qkv->begin() + static_cast<int64_t>((token * all_heads + head) * dim);
        Values head_values(begin, begin + static_cast<int64_t>(dim));
        if (!weight.empty()) {
          head_values = reference::RmsNorm(head_values, weight, kRmsEpsilon);
        }
        const Values turned = reference::Rope(head_values, positions[token], frequencies);
        std::copy(turned.begin(), turned.end(), begin);
      }
    }
  }

  double QkNormRopeRound(bool norm) {
    const int32_t tokens = Uniform(1, 50);
    const int32_t dim = Uniform(0, 1) == 0 ? 64 : 128;
    const int32_t kv_heads = Uniform(1, 8);
    const int32_t query_heads = kv_heads * Uniform(1, 4);
    const int32_t all_heads = query_heads + 2 * kv_heads;
    Values qkv = Draw(static_cast<size_t>(tokens) * all_heads * dim);
    const Values q_weight = norm ? Draw(dim) : Values();
    const Values k_weight = norm ? Draw(dim) : Values();
    std::vector<int32_t> positions(tokens);
    for (int32_t& position : positions) {
      position = Uniform(0, 40000);
    }
    std::vector<float> frequencies(dim / 2);
    for (int32_t i = 0; i < dim / 2; ++i) {
      frequencies[i] = static_cast<float>(std::pow(1e6, -2.0 * i / dim));
    }
    Upload(qkv, &out_);
    if (norm) {
      Upload(q_weight, &a_);
      Upload(k_weight, &b_);
    }
    positions_.Upload(positions);
    frequencies_.Upload(frequencies);
    const size_t head_bytes = dim * ElementBytes(type_);
    QkNormRopeParams params;
    params.q = out_.get();
    params.k = out_.get() + query_heads * head_bytes;
    params.q_weight = norm ? a_.get() : nullptr;
    params.k_weight = norm ? b_.get() : nullptr;
    params.position_ids = positions_.get();
    params.inverse_frequencies = frequencies_.get();
    params.q_token_stride = int64_t{all_heads} * dim;
    params.k_token_stride = params.q_token_stride;
    params.num_tokens = tokens;
    params.num_query_heads = query_heads;
    params.num_kv_heads = kv_heads;
    params.head_dim = dim;
    params.epsilon = kRmsEpsilon;
    params.data_type = type_;
    Require(LaunchQkNormRope(params, nullptr), "LaunchQkNormRope");
    Require(cudaDeviceSynchronize(), "QkNormRope");
    TurnHeads(q_weight, positions, frequencies, 0, query_heads, all_heads, &qkv);
    TurnHeads(k_weight, positions, frequencies, query_heads, kv_heads, all_heads, &qkv);
    return Error(out_, qkv, dim, false);
  }

  double SiluMulRound() {
    const int32_t rows = Uniform(1, 40);
    const int32_t columns = 8 * (Uniform(0, 2) == 0 ? Uniform(1, 1600) : Uniform(1, 100));
    const Values gate_up = Draw(static_cast<size_t>(rows) * 2 * columns, 20);
    Upload(gate_up, &a_);
    Poison(static_cast<size_t>(rows) * columns, &out_);
    SiluMulParams params;
    params.gate_up = a_.get();
    params.out = out_.get();
    params.rows = rows;
    params.columns = columns;
    params.data_type = type_;
    Require(LaunchSiluMul(params, nullptr), "LaunchSiluMul");
    Require(cudaDeviceSynchronize(), "SiluMul");
    Values expected;
    for (int32_t row = 0; row < rows; ++row) {
      const auto begin = gate_up.begin() + static_cast<int64_t>(row) * 2 * columns;
      const Values out = reference::SiluMul(Values(begin, begin + 2 * columns));
      expected.insert(expected.end(), out.begin(), out.end());
    }
    return Error(out_, expected, columns, true);
  }

  double RowGatherRound() {
    const int32_t rows = Uniform(1, 60);
    const int32_t source_rows = Uniform(1, 100);
    const int32_t columns = 8 * Uniform(1, 300);
    const Values source = Draw(static_cast<size_t>(source_rows) * columns);
    std::vector<int32_t> indices(rows);
    for (int32_t& index : indices) {
      index = Uniform(0, source_rows - 1);
    }
    Upload(source, &a_);
    positions_.Upload(indices);
    Poison(static_cast<size_t>(rows) * columns, &out_);
    RowGatherParams params;
    params.source = a_.get();
    params.indices = positions_.get();
    params.out = out_.get();
    params.row_bytes = columns * static_cast<int32_t>(ElementBytes(type_));
    params.source_stride_bytes = params.row_bytes;
    params.rows = rows;
    Require(LaunchRowGather(params, nullptr), "LaunchRowGather");
    Require(cudaDeviceSynchronize(), "RowGather");
    Values expected;
    for (const int32_t index : indices) {
      const auto begin = source.begin() + static_cast<int64_t>(index) * columns;
      expected.insert(expected.end(), begin, begin + columns);
    }
    // Rows are copied without rounding, so any difference must fail.
    return Error(out_, expected, columns, true) * 1e9;
  }

  // Logits are float32, whatever the type of this round.
  double LogitStatsRound() {
    const int32_t rows = Uniform(1, 40);
    const int32_t columns = Uniform(0, 2) == 0 ? Uniform(1, 160'000) : Uniform(1, 3000);
    const double temperature = Uniform(0, 1) == 0 ? 1 : Uniform(1, 30) * 0.1;
    const Values logits = Draw(static_cast<size_t>(rows) * columns, Uniform(1, 20));
    Upload(logits, &a_);
    Poison(size_t{4} * rows, &out_);
    LogitStatsParams params;
    params.logits = reinterpret_cast<const float*>(a_.get());
    params.inverse_temperature = static_cast<float>(1 / temperature);
    params.log_sum_exp = reinterpret_cast<float*>(out_.get());
    params.entropy = params.log_sum_exp + rows;
    params.min_logit = params.entropy + rows;
    params.max_logit = params.min_logit + rows;
    params.rows = rows;
    params.columns = columns;
    Require(LaunchLogitStats(params, nullptr), "LaunchLogitStats");
    Require(cudaDeviceSynchronize(), "LogitStats");
    // The allowed error is a few roundings of the largest term, even if terms cancel.
    double largest = 1;
    Values expected(size_t{4} * rows);
    for (int32_t row = 0; row < rows; ++row) {
      const auto begin = logits.begin() + static_cast<int64_t>(row) * columns;
      const reference::LogitStats stats =
          reference::ReadLogits(Values(begin, begin + columns), temperature);
      const double values[] = {stats.log_sum_exp, stats.entropy, stats.min_logit, stats.max_logit};
      for (int32_t i = 0; i < 4; ++i) {
        expected[i * rows + row] = values[i];
      }
      largest = std::max(largest, std::abs(stats.log_sum_exp));
    }
    const size_t bytes = expected.size() * sizeof(float);
    std::vector<uint8_t> bits = out_.Download(bytes + kGuardBytes);
    if (std::any_of(bits.begin() + static_cast<int64_t>(bytes), bits.end(),
                    [](uint8_t byte) { return byte != 0xFF; })) {
      return NAN;
    }
    bits.resize(bytes);
    const Values found = Decode(bits, DataType::kFloat32);
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const bool is_range = i >= size_t{2} * rows;
      const double error = std::abs(found[i] - expected[i]) / (is_range ? 1e-30 : 4e-6 * largest);
      worst = error <= worst ? worst : error;
    }
    return worst;
  }

  // Ranks must be exact: the error is 0, or infinite for a wrong rank. Rows have many ties, some
  // have a non-finite logit, and there are zero, one or several targets.
  double LogitRanksRound() {
    const int32_t rows = Uniform(1, 20);
    const int32_t columns = Uniform(0, 2) == 0 ? Uniform(1, 160'000) : Uniform(1, 3000);
    Values logits = Draw(static_cast<size_t>(rows) * columns, 20);
    for (double& logit : logits) {
      logit = std::round(logit * 4) / 4;
    }
    for (int32_t row = 0; row < rows; ++row) {
      if (Uniform(0, 9) == 0) {
        const double odd[] = {NAN, INFINITY, -INFINITY};
        logits[static_cast<size_t>(row) * columns + Uniform(0, columns - 1)] = odd[Uniform(0, 2)];
      }
    }
    std::vector<int32_t> target_rows;
    for (int32_t row = 0; row < rows; ++row) {
      target_rows.insert(target_rows.end(), Uniform(0, 3), row);
    }
    const auto num_targets = static_cast<int32_t>(target_rows.size());
    std::vector<int32_t> targets = target_rows;
    for (int32_t i = 0; i < num_targets; ++i) {
      targets.push_back(Uniform(0, columns - 1));
    }
    Upload(logits, &a_);
    // A spare element avoids an empty array if there are no targets.
    targets.push_back(0);
    positions_.Upload(targets);
    Poison(static_cast<size_t>(num_targets), &out_);
    LogitRanksParams params;
    params.logits = reinterpret_cast<const float*>(a_.get());
    params.target_rows = positions_.get();
    params.target_columns = positions_.get() + num_targets;
    params.ranks = reinterpret_cast<int32_t*>(out_.get());
    params.columns = columns;
    params.num_targets = num_targets;
    Require(LaunchLogitRanks(params, nullptr), "LaunchLogitRanks");
    Require(cudaDeviceSynchronize(), "LogitRanks");
    const size_t bytes = static_cast<size_t>(num_targets) * sizeof(int32_t);
    const std::vector<uint8_t> bits = out_.Download(bytes + kGuardBytes);
    if (std::any_of(bits.begin() + static_cast<int64_t>(bytes), bits.end(),
                    [](uint8_t byte) { return byte != 0xFF; })) {
      return NAN;
    }
    for (int32_t i = 0; i < num_targets; ++i) {
      int32_t rank = 0;
      std::memcpy(&rank, bits.data() + i * sizeof(rank), sizeof(rank));
      const auto begin = logits.begin() + static_cast<int64_t>(target_rows[i]) * columns;
      if (rank != reference::RankOf(Values(begin, begin + columns), targets[num_targets + i])) {
        return INFINITY;
      }
    }
    return 0;
  }

  std::mt19937 random_;
  const int32_t rounds_;
  DataType type_ = DataType::kBFloat16;
  DeviceBuffer<uint8_t> a_;
  DeviceBuffer<uint8_t> b_;
  DeviceBuffer<uint8_t> c_;
  DeviceBuffer<uint8_t> out_;
  DeviceBuffer<int32_t> positions_;
  DeviceBuffer<float> frequencies_;
  int64_t failures_ = 0;
};

}  // namespace

int64_t CheckLayers(uint32_t seed, int32_t rounds) { return LayerCheck(seed, rounds).Run(); }

}  // namespace canopy::kernels::check
