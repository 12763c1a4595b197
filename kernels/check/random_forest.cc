#include "kernels/check/random_forest.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

namespace canopy::kernels::check {
namespace {

int32_t Uniform(std::mt19937& random, int32_t low, int32_t high) {
  return std::uniform_int_distribution<int32_t>(low, high)(random);
}

void GrowBinary(ForestBuilder& builder, int32_t levels, int32_t branch_tokens) {
  if (levels == 0) {
    return;
  }
  const int32_t depth = builder.depth();
  for (int i = 0; i < 2; ++i) {
    builder.Grow(branch_tokens);
    GrowBinary(builder, levels - 1, branch_tokens);
    builder.ReturnTo(depth);
  }
}

}  // namespace

void ForestBuilder::Grow(int32_t tokens) {
  for (int32_t i = 0; i < tokens; ++i) {
    open_.push_back(num_tokens());
    forest_.exit.push_back(0);
    forest_.max_path_tokens = std::max(forest_.max_path_tokens, depth());
    forest_.visible_pairs += depth();
  }
}

void ForestBuilder::ReturnTo(int32_t depth) {
  while (this->depth() > depth) {
    forest_.exit[open_.back()] = num_tokens() - 1;
    open_.pop_back();
  }
}

TokenForest ForestBuilder::Build() {
  ReturnTo(0);
  return std::move(forest_);
}

TokenForest RandomForest(std::mt19937& random, int32_t max_tokens) {
  // Most forests are small or have sizes near tile borders, because these matter most. Large ones
  // are rare.
  const int32_t limit = Uniform(random, 0, 3) == 0 ? max_tokens : std::min(max_tokens, 400);
  const int32_t tokens = Uniform(random, 1, limit);
  const int32_t max_run = 1 << Uniform(random, 0, 8);
  // The weights with which a chain is followed by a new tree, by a random ancestor, or by a branch
  // just above its end.
  const int32_t new_tree = Uniform(random, 0, 3);
  const int32_t far_back = Uniform(random, 0, 8);
  const bool wide = Uniform(random, 0, 3) == 0;
  const int32_t prefix = Uniform(random, 0, std::max(1, tokens / 2));
  ForestBuilder builder;
  if (wide) {
    builder.Grow(prefix);
  }
  while (builder.num_tokens() < tokens) {
    builder.Grow(std::min(Uniform(random, 1, max_run), tokens - builder.num_tokens()));
    const int32_t choice = Uniform(random, 0, 11);
    if (wide && choice < 10) {
      builder.ReturnTo(std::min(prefix, builder.depth()));
    } else if (choice < new_tree) {
      builder.ReturnTo(0);
    } else if (choice < new_tree + far_back) {
      builder.ReturnTo(Uniform(random, 0, builder.depth()));
    } else {
      builder.ReturnTo(std::max(0, builder.depth() - Uniform(random, 0, 3)));
    }
  }
  return builder.Build();
}

TokenForest WideForest(int32_t trees, int32_t prefix, int32_t leaves, int32_t leaf_tokens) {
  ForestBuilder builder;
  for (int32_t tree = 0; tree < trees; ++tree) {
    builder.ReturnTo(0);
    builder.Grow(prefix);
    for (int32_t leaf = 0; leaf < leaves; ++leaf) {
      builder.ReturnTo(prefix);
      builder.Grow(leaf_tokens);
    }
  }
  return builder.Build();
}

TokenForest DeepForest(int32_t trees, int32_t root, int32_t levels, int32_t branch_tokens) {
  ForestBuilder builder;
  for (int32_t tree = 0; tree < trees; ++tree) {
    builder.ReturnTo(0);
    builder.Grow(root);
    GrowBinary(builder, levels, branch_tokens);
  }
  return builder.Build();
}

}  // namespace canopy::kernels::check
