#include "kernels/reference/tree_attention_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace canopy::kernels::reference {
namespace {

double Dot(const double* a, const double* b, int32_t count) {
  double sum = 0;
  for (int32_t i = 0; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

// Computes one query row and returns its log-sum-exp.
double AttendRow(const TreeAttentionInput& input, int32_t token, int32_t head, double* out) {
  const size_t dim = input.head_dim;
  const size_t kv_heads = input.num_kv_heads;
  const size_t kv_head = head / (input.num_query_heads / input.num_kv_heads);
  const double* q = &input.q[(size_t(token) * input.num_query_heads + head) * dim];
  std::vector<int32_t> keys;
  std::vector<double> weights;
  for (int32_t key = 0; key <= token; ++key) {
    if (input.exit[key] >= token) {
      keys.push_back(key);
      weights.push_back(input.scale *
                        Dot(q, &input.k[(size_t(key) * kv_heads + kv_head) * dim], input.head_dim));
    }
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) {
    weight = std::exp(weight - max);
    sum += weight;
  }
  std::fill_n(out, dim, 0.0);
  for (size_t i = 0; i < keys.size(); ++i) {
    const double* v = &input.v[(size_t(keys[i]) * kv_heads + kv_head) * dim];
    const double share = weights[i] / sum;
    for (size_t column = 0; column < dim; ++column) {
      out[column] += share * v[column];
    }
  }
  return max + std::log(sum);
}

}  // namespace

TreeAttentionOutput TreeAttention(const TreeAttentionInput& input) {
  TreeAttentionOutput output;
  output.out.resize(input.q.size());
  output.log_sum_exp.resize(input.exit.size() * input.num_query_heads);
  for (size_t row = 0; row < output.log_sum_exp.size(); ++row) {
    output.log_sum_exp[row] = AttendRow(input, static_cast<int32_t>(row / input.num_query_heads),
                                        static_cast<int32_t>(row % input.num_query_heads),
                                        &output.out[row * input.head_dim]);
  }
  return output;
}

}  // namespace canopy::kernels::reference
