// Compares log-probs, entropy, logit ranges, top tokens and values, with what transformers computed
// from the same checkpoint, each path alone. Run by parity_test.sh, which makes the checkpoints.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/engine/engine.h"
#include "core/engine/torch_runner.h"
#include "core/ops/reference_kernel_ops.h"
#include "gtest/gtest.h"
#include "tests/conformance/reference_cases.h"

namespace canopy {
namespace {

constexpr double kMaxFloat32Error = 1e-4;
// Our bfloat16 error over transformers' own, both against float32 arithmetic on the same weights.
constexpr double kMaxBFloat16ErrorRatio = 1.25;

struct RouteCase {
  const char* name;
  Backend backend;
  Packing packing;
};

constexpr RouteCase kRoutes[] = {
    {"path", Backend::kPath, Packing::kAuto},
    {"dense", Backend::kDense, Packing::kAuto},
    {"dense_padded", Backend::kDense, Packing::kPadded},
    {"segmented", Backend::kSegmented, Packing::kAuto},
    {"segmented_padded", Backend::kSegmented, Packing::kPadded},
    {"fused", Backend::kFused, Packing::kAuto},
};

// The longest path has 256 tokens: the second budget makes many parts.
constexpr int64_t kBudgets[] = {1 << 20, 300};

std::string FolderOf(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/checkpoints/", name);
}

std::unique_ptr<Engine> EngineFor(const std::string& name, const std::string& dtype,
                                  int64_t max_batch_tokens) {
  TorchRunnerOptions options;
  options.name = name;
  options.source = FolderOf(name);
  options.device = "cpu";
  options.dtype = dtype;
  // Small tensors: a second thread would only wait for the first.
  options.threads = 1;
  options.kernels = ReferenceKernels();
  auto runner = LoadTorchRunner(options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(*std::move(runner));
  Engine::Options engine_options;
  engine_options.max_batch_tokens = max_batch_tokens;
  auto engine = Engine::Create(engine_options, std::move(runners));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

// All that the model can give, in one request.
ScoreJob JobFor(const ReferenceCase& item, const RouteCase& route, TokenScope scope) {
  ScoreJob job;
  job.batch = item.batch;
  job.routing.backend = route.backend;
  job.routing.packing = route.packing;
  job.outputs.vectors = true;
  job.outputs.scores = !item.scores.values.empty();
  job.outputs.values = !item.values.values.empty();
  job.outputs.scope = scope;
  if (!item.tokens.values.empty()) {
    job.outputs.token_logprobs = job.outputs.entropy = job.outputs.vocab_range = true;
    job.outputs.top_logprobs = kNumTop;
  }
  return job;
}

ScoreResult Answer(Engine& engine, ScoreJob job) {
  absl::Notification done;
  absl::StatusOr<ScoreResult> result = absl::UnknownError("not answered");
  const absl::Status submitted = engine.Submit(std::move(job), [&](auto answer) {
    result = std::move(answer);
    done.Notify();
  });
  EXPECT_TRUE(submitted.ok()) << submitted;
  done.WaitForNotification();
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

void ExpectNear(double actual, double expected, const char* what) {
  EXPECT_NEAR(actual, expected, kMaxFloat32Error * (1 + std::abs(expected))) << what;
}

// The best tokens by log-prob; ids are compared where neighbours are clearly apart.
void ExpectTop(const TokenOutputs& tokens, int64_t entry, const float* expected) {
  const float* logprobs = expected + kTopLogprobs;
  for (int64_t rank = 0; rank < kNumTop; ++rank) {
    const auto place = static_cast<size_t>(entry * kNumTop + rank);
    ExpectNear(tokens.top_logprobs[place], logprobs[rank], "top log-prob");
    const bool clear = (rank == 0 || logprobs[rank - 1] - logprobs[rank] > 0.01) &&
                       rank + 1 < kNumTop && logprobs[rank] - logprobs[rank + 1] > 0.01;
    if (clear) {
      EXPECT_EQ(tokens.top_ids[place], static_cast<int32_t>(expected[kTopIds + rank]));
    }
  }
}

void ExpectEntry(const TokenOutputs& tokens, int64_t entry, const float* expected,
                 bool is_second_temperature) {
  const auto place = static_cast<size_t>(entry);
  const float* by_temperature = expected + (is_second_temperature ? 1 : 0);
  ExpectNear(tokens.logprobs[place], by_temperature[kLogprob], "log-prob");
  ExpectNear(tokens.entropy[place], by_temperature[kEntropy], "entropy");
  ExpectNear(tokens.min_logit[place], expected[kMinLogit], "smallest logit");
  ExpectNear(tokens.max_logit[place], expected[kMaxLogit], "largest logit");
  if (!is_second_temperature) {
    ExpectTop(tokens, entry, expected);
  }
}

// Calls check(entry of ours, row of the reference) for every entry of `entries`. The reference has
// the tokens of each path from index `reference_first` on.
template <typename Check>
void ForEachEntry(const PathBatch& batch, const TokenEntries& entries, int64_t reference_first,
                  const Check& check) {
  int64_t reference = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      const int64_t length = batch.PathLength(question, path);
      const int64_t first = entries.first_token[path];
      ASSERT_EQ(entries.offsets[path + 1] - entries.offsets[path],
                std::max<int64_t>(length - first, 0));
      for (int64_t token = first; token < length; ++token) {
        check(entries.offsets[path] + token - first, reference + token - reference_first);
      }
      reference += length - reference_first;
    }
  }
}

void ExpectParity(const ReferenceCase& item, const ScoreResult& result,
                  bool is_second_temperature) {
  EXPECT_EQ(std::count(result.finite.begin(), result.finite.end(), 0), 0);
  if (!item.tokens.values.empty()) {
    ForEachEntry(*item.batch, result.tokens.entries, 1, [&](int64_t entry, int64_t row) {
      ExpectEntry(result.tokens, entry, item.tokens.Row(row), is_second_temperature);
    });
  }
  if (!item.values.values.empty()) {
    ForEachEntry(*item.batch, result.values.entries, 0, [&](int64_t entry, int64_t row) {
      ExpectNear(result.values.values[static_cast<size_t>(entry)], item.values.values[row],
                 "value");
    });
  }
  for (size_t i = 0; i < item.scores.values.size(); ++i) {
    ExpectNear(result.scores[i], item.scores.values[i], "score");
  }
}

class TokenParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenParityTest, Float32MatchesTransformersForEveryTokenAndBackend) {
  const auto cases = ReadReferenceCases(FolderOf(GetParam()));
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (const int64_t budget : kBudgets) {
    const auto engine = EngineFor(GetParam(), "float32", budget);
    for (const auto& [name, item] : *cases) {
      for (const RouteCase& route : kRoutes) {
        for (const TokenScope scope : {TokenScope::kCandidate, TokenScope::kPath}) {
          const bool is_second_temperature = scope == TokenScope::kCandidate;
          SCOPED_TRACE(absl::StrCat(name, " by ", route.name, " within ", budget,
                                    is_second_temperature ? " candidate" : " path"));
          ScoreJob job = JobFor(item, route, scope);
          job.outputs.temperature = is_second_temperature ? kSecondTemperature : 1;
          ExpectParity(item, Answer(*engine, std::move(job)), is_second_temperature);
          if (HasFailure()) {
            return;
          }
        }
      }
    }
  }
}

// An untied and a tied head, one with a reward head beside it, and a critic.
INSTANTIATE_TEST_SUITE_P(Checkpoints, TokenParityTest,
                         ::testing::Values("causal_sharded_f32", "causal_tied_bf16",
                                           "causal_reward_f32", "reward_f32"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BFloat16TokenParityTest, ErrorIsNoLargerThanThatOfTransformers) {
  const std::string name = "causal_tied_bf16";
  const auto cases = ReadReferenceCases(FolderOf(name));
  ASSERT_TRUE(cases.ok()) << cases.status();
  const auto engine = EngineFor(name, "bfloat16", kBudgets[0]);
  for (const RouteCase& route : kRoutes) {
    std::map<TokenColumn, double> ours;
    std::map<TokenColumn, double> theirs;
    for (const auto& named_case : *cases) {
      const ReferenceCase& item = named_case.second;
      const ScoreResult result = Answer(*engine, JobFor(item, route, TokenScope::kPath));
      const TokenOutputs& tokens = result.tokens;
      ForEachEntry(*item.batch, tokens.entries, 1, [&](int64_t entry, int64_t row) {
        const auto place = static_cast<size_t>(entry);
        const float* exact = item.tokens.Row(row);
        for (const auto& [column, value] : {std::pair{kLogprob, tokens.logprobs[place]},
                                            {kEntropy, tokens.entropy[place]},
                                            {kMinLogit, tokens.min_logit[place]},
                                            {kMaxLogit, tokens.max_logit[place]}}) {
          ours[column] += std::pow(double{value} - exact[column], 2);
          theirs[column] += std::pow(double{item.tokens_bf16.Row(row)[column]} - exact[column], 2);
        }
      });
    }
    for (const auto& [column, error] : ours) {
      const double ratio = std::sqrt(error / theirs[column]);
      EXPECT_GT(theirs[column], 0);
      EXPECT_LE(ratio, kMaxBFloat16ErrorRatio) << route.name << " column " << column;
      RecordProperty(absl::StrCat(route.name, "_column_", column), absl::StrCat(ratio));
    }
  }
}

}  // namespace
}  // namespace canopy
