// The descriptions of typed-decision and reranker checkpoints, and the reasons for refusing them.
// parity_test.cc compares their scores. Run by conformance_test.sh, which makes the checkpoints.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "core/engine/engine.h"
#include "core/runtime/torch_runner.h"
#include "gtest/gtest.h"
#include "tests/conformance/checkpoint_engine.h"
#include "tests/conformance/reference_cases.h"

namespace canopy {
namespace {

TorchRunnerOptions OptionsFor(const std::string& name) {
  return CheckpointOptions(name, "float32");
}

TEST(DecisionCheckpointTest, IsDescribed) {
  const auto runner = LoadRunner(OptionsFor("decision_f32"));
  const ModelInfo& info = *runner->info();
  EXPECT_EQ(info.num_labels, 1);
  EXPECT_EQ(info.score_head, ScoreHead::kDecision);
  EXPECT_EQ(info.temperatures.boolean, 0.5);
  EXPECT_EQ(info.temperatures.choice, 1.25);
  EXPECT_EQ(info.temperatures.score, 2);
}

TEST(DecisionCheckpointTest, NeedsItsBackbonesConfig) {
  TorchRunnerOptions options = OptionsFor("decision_f32");
  options.model.config.clear();
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kNotFound);
  options.model.config = CheckpointFolder("reranker_f16");  // has another size
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kDataLoss);
}

TEST(DecisionCheckpointTest, IsNoReranker) {
  TorchRunnerOptions options = OptionsFor("decision_f32");
  options.model.reranker_yes_token = 1;
  options.model.reranker_no_token = 2;
  const absl::Status status = LoadTorchRunner(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "a typed-decision model")) << status;
}

TEST(RerankerCheckpointTest, OptionsReplaceTheFoldersTokens) {
  TorchRunnerOptions options = OptionsFor("reranker_f16");
  const auto cases = ReadReferenceCases(options.source.source);
  ASSERT_TRUE(cases.ok()) << cases.status();
  const ReferenceCase& item = cases->begin()->second;
  options.model.reranker_yes_token = 11;  // the tokens of the folder, exchanged
  options.model.reranker_no_token = 297;
  const auto engine = StartEngine(LoadRunner(options), 1 << 20);
  EXPECT_EQ(engine->models()[0]->score_head, ScoreHead::kReranker);
  ScoreJob job;
  job.batch = item.batch;
  job.outputs.scores = true;
  const ScoreResult result = Ask(*engine, std::move(job));
  ASSERT_EQ(result.scores.size(), item.exact.scores.values.size());
  for (size_t i = 0; i < result.scores.size(); ++i) {
    EXPECT_NEAR(result.scores[i], 1 - item.exact.scores.values[i], 1e-4);
  }
  options.model.reranker_yes_token = 311;  // the vocabulary has 311 words
  options.model.reranker_no_token = 0;
  EXPECT_EQ(LoadTorchRunner(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace canopy
