// Measures how fast batches are planned on the host: Create and BuildPart of every part, on one
// thread. items_per_second is the number of path tokens per second (paths x longest path, the
// tokens that the path route would run).
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/tree/tree_plan.h"

namespace canopy {
namespace {

using Tokens = std::vector<int32_t>;

constexpr uint64_t kSeed = 1;
constexpr int32_t kVocabulary = 150'000;
constexpr int64_t kMaxBatchTokens = 65'536;

Tokens RandomTokens(std::mt19937_64& random, int32_t size) {
  std::uniform_int_distribution<int32_t> token(0, kVocabulary - 1);
  Tokens tokens(size);
  std::generate(tokens.begin(), tokens.end(), [&] { return token(random); });
  return tokens;
}

// Returns one question of candidates after a prefix, which is sent once or in every candidate.
PathBatch Fan(int32_t num_candidates, int32_t prefix_size, int32_t suffix_size,
              bool repeat_prefix) {
  std::mt19937_64 random(kSeed);
  const Tokens prefix = RandomTokens(random, prefix_size);
  std::vector<Tokens> suffixes;
  for (int32_t i = 0; i < num_candidates; ++i) {
    Tokens suffix = repeat_prefix ? prefix : Tokens();
    const Tokens own = RandomTokens(random, suffix_size);
    suffix.insert(suffix.end(), own.begin(), own.end());
    suffixes.push_back(std::move(suffix));
  }
  PathBatch batch;
  batch.AddQuestion(repeat_prefix ? Tokens() : prefix, suffixes);
  return batch;
}

PathBatch Rollout() {
  PathBatch batch;
  std::mt19937_64 random(kSeed);
  for (int32_t question = 0; question < 32; ++question) {
    std::vector<Tokens> suffixes;
    suffixes.reserve(64);
    for (int32_t i = 0; i < 64; ++i) {
      suffixes.push_back(RandomTokens(random, 64));
    }
    batch.AddQuestion(RandomTokens(random, 1024), suffixes);
  }
  return batch;
}

PathBatch OneQuestion(const std::vector<Tokens>& paths) {
  PathBatch batch;
  batch.AddQuestion({}, paths);
  return batch;
}

// Returns all leaves of a binary tree from left to right, with `run_size` tokens per level.
std::vector<Tokens> BinaryTree(int32_t num_levels, int32_t run_size) {
  std::vector<Tokens> paths;
  for (int32_t leaf = 0; leaf < 1 << num_levels; ++leaf) {
    Tokens path;
    for (int32_t level = 0; level < num_levels; ++level) {
      const int32_t branch = leaf >> (num_levels - 1 - level);
      path.insert(path.end(), run_size, branch);
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

// Returns candidates of which candidate i leaves a common path of `size` tokens after i tokens.
std::vector<Tokens> Comb(int32_t size) {
  std::vector<Tokens> paths;
  for (int32_t i = 0; i < size; ++i) {
    Tokens path(i + 1);
    std::iota(path.begin(), path.end(), 0);
    path.back() = -1;
    paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<Tokens> Singles(int32_t num_paths) {
  std::vector<Tokens> paths;
  paths.reserve(num_paths);
  for (int32_t i = 0; i < num_paths; ++i) {
    paths.push_back({i});
  }
  return paths;
}

std::vector<Tokens> Shuffled(std::vector<Tokens> paths) {
  std::mt19937_64 random(kSeed);
  std::shuffle(paths.begin(), paths.end(), random);
  return paths;
}

std::vector<Tokens> Reversed(std::vector<Tokens> paths) {
  std::reverse(paths.begin(), paths.end());
  return paths;
}

void PlanAndBuild(benchmark::State& state, const PathBatch& input, Backend backend) {
  const auto batch = std::make_shared<const PathBatch>(input);
  RouteOptions options;
  options.backend = backend;
  options.hidden_size = 1024;
  options.max_mask_bytes = int64_t{1} << 50;
  int64_t path_tokens = 0;
  for (auto _ : state) {
    const auto plan = RequestPlan::Create(batch, options, kMaxBatchTokens);
    if (!plan.ok()) {
      state.SkipWithError(plan.status().ToString().c_str());
      return;
    }
    for (int32_t part = 0; part < plan->num_parts(); ++part) {
      benchmark::DoNotOptimize(plan->BuildPart(part));
    }
    path_tokens = plan->counts().path_tokens;
    state.SetLabel(std::string(BackendName(plan->route().backend)));
  }
  state.SetItemsProcessed(path_tokens * state.iterations());
}

struct NamedInput {
  const char* name;
  std::function<PathBatch()> make;
  Backend backend;
};

const NamedInput kInputs[] = {
    {"fan_64x1024+64/prefix_once", [] { return Fan(64, 1024, 64, false); }, Backend::kDense},
    {"fan_64x1024+64/prefix_repeated", [] { return Fan(64, 1024, 64, true); }, Backend::kDense},
    {"fan_64x1024+64/segmented", [] { return Fan(64, 1024, 64, false); }, Backend::kSegmented},
    {"fan_64x1024+64/path", [] { return Fan(64, 1024, 64, false); }, Backend::kPath},
    {"rollout_32x64x1024+64", Rollout, Backend::kDense},
    {"small_4x100+16", [] { return Fan(4, 100, 16, false); }, Backend::kDense},
    {"children_100000", [] { return Fan(100'000, 1, 1, false); }, Backend::kDense},
    {"roots_100000", [] { return OneQuestion(Singles(100'000)); }, Backend::kDense},
    {"roots_1000000/shuffled", [] { return OneQuestion(Shuffled(Singles(1'000'000))); },
     Backend::kDense},
    {"duplicates_1000000", [] { return OneQuestion(std::vector<Tokens>(1'000'000, {1})); },
     Backend::kDense},
    {"comb_2048", [] { return OneQuestion(Comb(2048)); }, Backend::kDense},
    {"comb_2048/reversed", [] { return OneQuestion(Reversed(Comb(2048))); }, Backend::kDense},
    {"comb_2048/shuffled", [] { return OneQuestion(Shuffled(Comb(2048))); }, Backend::kDense},
    {"comb_2048/segmented", [] { return OneQuestion(Comb(2048)); }, Backend::kSegmented},
    {"binary_16x1", [] { return OneQuestion(BinaryTree(16, 1)); }, Backend::kDense},
    {"binary_16x1/reversed", [] { return OneQuestion(Reversed(BinaryTree(16, 1))); },
     Backend::kDense},
    {"binary_16x1/shuffled", [] { return OneQuestion(Shuffled(BinaryTree(16, 1))); },
     Backend::kDense},
    {"binary_7x16/shuffled", [] { return OneQuestion(Shuffled(BinaryTree(7, 16))); },
     Backend::kDense},
};

const bool kRegistered = [] {
  for (const NamedInput& input : kInputs) {
    benchmark::RegisterBenchmark(input.name, [&input](benchmark::State& state) {
      PlanAndBuild(state, input.make(), input.backend);
    });
  }
  return true;
}();

}  // namespace
}  // namespace canopy
