#include "kernels/reference/layer_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace canopy::kernels::reference {

std::vector<double> RmsNorm(const std::vector<double>& row, const std::vector<double>& weight,
                            double epsilon) {
  double sum = 0;
  for (const double value : row) {
    sum += value * value;
  }
  const double root = std::sqrt(sum / static_cast<double>(row.size()) + epsilon);
  std::vector<double> out(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    out[i] = row[i] / root * weight[i];
  }
  return out;
}

std::vector<double> Rope(const std::vector<double>& head, int32_t position,
                         const std::vector<float>& inverse_frequencies) {
  const size_t half = head.size() / 2;
  std::vector<double> out(head.size());
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<float>(position) * inverse_frequencies[i];
    out[i] = head[i] * std::cos(angle) - head[i + half] * std::sin(angle);
    out[i + half] = head[i + half] * std::cos(angle) + head[i] * std::sin(angle);
  }
  return out;
}

std::vector<double> SiluMul(const std::vector<double>& gate_up) {
  const size_t columns = gate_up.size() / 2;
  std::vector<double> out(columns);
  for (size_t i = 0; i < columns; ++i) {
    out[i] = gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[columns + i];
  }
  return out;
}

LogitStats ReadLogits(const std::vector<double>& logits, double temperature) {
  LogitStats stats;
  stats.min_logit = *std::min_element(logits.begin(), logits.end());
  stats.max_logit = *std::max_element(logits.begin(), logits.end());
  const double max = stats.max_logit / temperature;
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp(logit / temperature - max);
  }
  stats.log_sum_exp = max + std::log(sum);
  for (const double logit : logits) {
    const double logprob = logit / temperature - stats.log_sum_exp;
    stats.entropy -= std::exp(logprob) * logprob;
  }
  return stats;
}

int32_t RankOf(const std::vector<double>& logits, int32_t column) {
  if (!std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); })) {
    return -1;
  }
  const double own = logits[static_cast<size_t>(column)];
  const auto larger =
      std::count_if(logits.begin(), logits.end(), [own](double x) { return x > own; });
  const auto equal_before = std::count(logits.begin(), logits.begin() + column, own);
  return static_cast<int32_t>(larger + equal_before) + 1;
}

}  // namespace canopy::kernels::reference
