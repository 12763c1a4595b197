// Compares the scores of typed-decision and reranker checkpoints with what PyTorch computed from
// them, through the engine: parts cut the questions that a decision head must see whole. Run by
// parity_test.sh, which makes the checkpoints below the test's temporary folder first.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/engine/engine.h"
#include "core/engine/torch_runner.h"
#include "core/ops/reference_kernel_ops.h"
#include "gtest/gtest.h"
#include "tests/conformance/reference_cases.h"

namespace canopy {
namespace {

std::string Folder(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/checkpoints/", name);
}

TorchRunnerOptions OptionsFor(const std::string& name) {
  TorchRunnerOptions options;
  options.name = name;
  options.source = Folder(name);
  if (absl::StartsWith(name, "decision")) {
    options.config = Folder(name + "_backbone");
  }
  options.device = "cpu";
  options.dtype = "float32";
  // Small tensors: a second thread would only wait for the first.
  options.threads = 1;
  options.kernels = ReferenceKernels();
  return options;
}

std::unique_ptr<Engine> StartEngine(const TorchRunnerOptions& options, int64_t max_batch_tokens) {
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

absl::StatusOr<ScoreResult> Score(Engine* engine, const ReferenceCase& item, Backend backend) {
  ScoreJob job;
  job.batch = item.batch;
  job.outputs.scores = true;
  job.routing.backend = backend;
  absl::StatusOr<ScoreResult> result = absl::UnknownError("not answered");
  absl::Notification done;
  const absl::Status submitted =
      engine->Submit(std::move(job), [&](absl::StatusOr<ScoreResult> answer) {
        result = std::move(answer);
        done.Notify();
      });
  EXPECT_TRUE(submitted.ok()) << submitted;
  done.WaitForNotification();
  return result;
}

class HeadsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HeadsTest, ScoresAreThoseOfPyTorchOnEveryRoute) {
  const auto cases = ReadReferenceCases(Folder(GetParam()));
  ASSERT_TRUE(cases.ok()) << cases.status();
  // The longest path has 180 tokens.
  for (const int64_t max_batch_tokens : {1 << 20, 200}) {
    const auto engine = StartEngine(OptionsFor(GetParam()), max_batch_tokens);
    for (const auto& [name, item] : *cases) {
      for (const Backend backend :
           {Backend::kPath, Backend::kDense, Backend::kSegmented, Backend::kFused}) {
        const auto result = Score(engine.get(), item, backend);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_TRUE(result->parts > 1 || max_batch_tokens > 200);
        ASSERT_EQ(result->scores.size(), item.scores.values.size());
        for (size_t i = 0; i < result->scores.size(); ++i) {
          const double expected = item.scores.values[i];
          EXPECT_NEAR(result->scores[i], expected, 1e-4 * (1 + std::abs(expected)))
              << name << " by " << BackendName(backend) << " path " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, HeadsTest,
                         ::testing::Values("decision_f32", "decision_bf16", "reranker_tied_f32",
                                           "reranker_bf16"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DecisionCheckpointTest, IsDescribed) {
  const auto runner = LoadTorchRunner(OptionsFor("decision_f32"));
  ASSERT_TRUE(runner.ok()) << runner.status();
  const ModelInfo& info = *(*runner)->info();
  EXPECT_EQ(info.num_labels, 1);
  EXPECT_EQ(info.score_head, ScoreHead::kDecision);
  EXPECT_EQ(info.temperatures.boolean, 0.5);
  EXPECT_EQ(info.temperatures.choice, 1.25);
  EXPECT_EQ(info.temperatures.score, 2);
}

TEST(DecisionCheckpointTest, NeedsItsBackbonesConfig) {
  TorchRunnerOptions options = OptionsFor("decision_f32");
  options.config.clear();
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kNotFound);
  options.config = Folder("reranker_bf16");  // of another size
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kDataLoss);
}

TEST(DecisionCheckpointTest, IsNoReranker) {
  TorchRunnerOptions options = OptionsFor("decision_f32");
  options.reranker = RerankerTokens{1, 2};
  const absl::Status status = LoadTorchRunner(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "a typed-decision model")) << status;
}

TEST(RerankerCheckpointTest, OptionsReplaceTheFoldersTokens) {
  TorchRunnerOptions options = OptionsFor("reranker_bf16");
  const auto cases = ReadReferenceCases(options.source);
  ASSERT_TRUE(cases.ok()) << cases.status();
  const ReferenceCase& item = cases->begin()->second;
  options.reranker = RerankerTokens{11, 297};  // the folder's, exchanged
  const auto engine = StartEngine(options, 1 << 20);
  EXPECT_EQ(engine->models()[0]->score_head, ScoreHead::kReranker);
  const auto result = Score(engine.get(), item, Backend::kAuto);
  ASSERT_TRUE(result.ok()) << result.status();
  for (size_t i = 0; i < result->scores.size(); ++i) {
    EXPECT_NEAR(result->scores[i], 1 - item.scores.values[i], 1e-4);
  }
  options.reranker = RerankerTokens{311, 0};  // the vocabulary has 311 words
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace canopy
