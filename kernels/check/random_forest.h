// Forests in depth-first order for checks and benchmarks of tree attention.
#ifndef KERNELS_CHECK_RANDOM_FOREST_H_
#define KERNELS_CHECK_RANDOM_FOREST_H_

#include <cstdint>
#include <random>
#include <vector>

namespace canopy::kernels::check {

struct TokenForest {
  std::vector<int32_t> exit;    // [tokens]
  int32_t max_path_tokens = 0;  // longest root-to-leaf path
  int64_t visible_pairs = 0;    // sum over tokens of depth + 1
};

// Builds a forest token by token in depth-first order.
class ForestBuilder {
 public:
  // Appends a chain below the current token.
  void Grow(int32_t tokens);
  // Returns to the ancestor at which `depth` tokens are open; 0 starts a new tree.
  void ReturnTo(int32_t depth);
  int32_t depth() const { return static_cast<int32_t>(open_.size()); }
  int32_t num_tokens() const { return static_cast<int32_t>(forest_.exit.size()); }
  TokenForest Build();

 private:
  TokenForest forest_;
  std::vector<int32_t> open_;  // the current path
};

// Returns a forest of 1 to max_tokens tokens: chains, or wide, deep, bushy or mixed trees, one or
// many.
TokenForest RandomForest(std::mt19937& random, int32_t max_tokens);

// Returns `trees` trees, each with a prefix and `leaves` chains of `leaf_tokens` below it.
TokenForest WideForest(int32_t trees, int32_t prefix, int32_t leaves, int32_t leaf_tokens);

// Returns `trees` trees, each with a root chain and `levels` of binary branching with chains of
// `branch_tokens`.
TokenForest DeepForest(int32_t trees, int32_t root, int32_t levels, int32_t branch_tokens);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_RANDOM_FOREST_H_
