// Tree attention in double precision on the host, which the kernels are compared with.
#ifndef KERNELS_REFERENCE_TREE_ATTENTION_REFERENCE_H_
#define KERNELS_REFERENCE_TREE_ATTENTION_REFERENCE_H_

#include <cstdint>
#include <vector>

namespace canopy::kernels::reference {

// Dense arrays with the shapes of TreeAttentionParams: q [tokens, query heads, head_dim], k and v
// [tokens, kv heads, head_dim], exit [tokens].
struct TreeAttentionInput {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<int32_t> exit;
  int32_t num_query_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  double scale = 0;
};

struct TreeAttentionOutput {
  std::vector<double> out;          // [tokens, query heads, head_dim]
  std::vector<double> log_sum_exp;  // [tokens, query heads], natural log
};

TreeAttentionOutput TreeAttention(const TreeAttentionInput& input);

}  // namespace canopy::kernels::reference

#endif  // KERNELS_REFERENCE_TREE_ATTENTION_REFERENCE_H_
