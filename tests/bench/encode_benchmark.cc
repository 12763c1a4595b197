// Measures a request from its plan to vectors on the host, for each backend and for the one that
// the measured policy chooses (named in the label): planning, index upload, forward and the copy to
// the host. Weights are synthetic (15M parameters besides the embedding), float32, on the CPU with
// one thread. items_per_second is the number of paths per second.
//
//   wide    two questions of 64 and 2 candidates, each 490 + 18 tokens
//   small   one question of 4 candidates, 100 + 16
//   typed   5 questions of 4 candidates, 440 + 16
//   alone   16 questions of one candidate, 0 + 128: nothing to share
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/runtime/torch_runner.h"
#include "core/tree/tree_plan.h"

namespace canopy {
namespace {

constexpr int32_t kVocabulary = 8192;
constexpr int64_t kMaxBatchTokens = 65'536;

constexpr const char* kConfig = R"({
  "architectures": ["Qwen3Model"], "model_type": "qwen3", "vocab_size": 8192, "hidden_size": 256,
  "intermediate_size": 768, "num_hidden_layers": 16, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 64, "hidden_act": "silu", "max_position_embeddings": 4096,
  "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": false})";

struct Shape {
  std::vector<int32_t> candidates;  // per question
  int32_t prefix_tokens;
  int32_t suffix_tokens;
};

std::shared_ptr<const PathBatch> MakeBatch(const Shape& shape) {
  std::mt19937 random(1);
  const auto tokens = [&](int32_t size) {
    std::vector<int32_t> ids(static_cast<size_t>(size));
    std::generate(ids.begin(), ids.end(),
                  [&] { return static_cast<int32_t>(random() % kVocabulary); });
    return ids;
  };
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  for (const int32_t candidates : shape.candidates) {
    std::vector<std::vector<int32_t>> suffixes(static_cast<size_t>(candidates));
    std::generate(suffixes.begin(), suffixes.end(), [&] { return tokens(shape.suffix_tokens); });
    batch->AddQuestion(tokens(shape.prefix_tokens), suffixes);
  }
  return batch;
}

// Returns a runner, which is created once; null if loading fails.
ModelRunner* Runner() {
  static const std::unique_ptr<ModelRunner> runner = [] {
    const std::string path =
        std::filesystem::temp_directory_path() / "canopy_encode_benchmark_config.json";
    std::ofstream(path) << kConfig;
    TorchRunnerOptions options;
    options.source.name = "synthetic";
    options.source.source = "synthetic:" + path;
    options.model.device = "cpu";
    options.model.dtype = "float32";
    options.model.threads = 1;
    options.prepare_routes = true;
    options.model.policy = Policy::kMeasured;
    auto loaded = LoadTorchRunner(options);
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }();
  return runner.get();
}

// Backend::kAuto = the measured policy chooses.
void Encode(benchmark::State& state, const Shape& shape, Backend backend) {
  ModelRunner* runner = Runner();
  if (runner == nullptr) {
    state.SkipWithError("the model does not load");
    return;
  }
  const auto batch = MakeBatch(shape);
  RouteOptions options;
  options.backend = backend;
  options.hidden_size = static_cast<int32_t>(runner->info()->hidden_size);
  options.policy = Policy::kMeasured;
  options.costs = runner->info()->route_costs;
  OutputSelection outputs;
  outputs.vectors = true;
  for (auto iteration : state) {
    const auto plan = RequestPlan::Create(batch, options, kMaxBatchTokens);
    if (!plan.ok()) {
      state.SkipWithError("planning failed");
      return;
    }
    state.SetLabel(std::string(BackendName(plan->route().backend)));
    for (int32_t part = 0; part < plan->num_parts(); ++part) {
      if (!runner->Run(plan->BuildPart(part), outputs).ok()) {
        state.SkipWithError("the forward failed");
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * batch->num_paths());
}

int RegisterAll() {
  const std::pair<const char*, Shape> shapes[] = {{"wide", {{64, 2}, 490, 18}},
                                                  {"small", {{4}, 100, 16}},
                                                  {"typed", {{4, 4, 4, 4, 4}, 440, 16}},
                                                  {"alone", {std::vector<int32_t>(16, 1), 0, 128}}};
  for (const auto& [name, shape] : shapes) {
    for (const Backend backend :
         {Backend::kPath, Backend::kDense, Backend::kSegmented, Backend::kAuto}) {
      const std::string label =
          std::string(name) + "/" +
          (backend == Backend::kAuto ? "measured" : std::string(BackendName(backend)));
      benchmark::RegisterBenchmark(label.c_str(), Encode, shape, backend)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return 0;
}

const int kRegistered = RegisterAll();

}  // namespace
}  // namespace canopy
