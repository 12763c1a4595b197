// Compares our results for checkpoints that have the configurations of published models with those
// of transformers for the same folders, each path alone. Run by conformance_test.sh, which first
// makes them with make_published_models.py; docs/MODELS.md lists them.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/checkpoint_engine.h"
#include "tests/conformance/reference_cases.h"

namespace canopy {
namespace {

// The tolerance is that of docs/adr/0005-tolerances.md.
constexpr double kMaxError = 1e-4;
constexpr int64_t kMaxBatchTokens = 1 << 20;

// Requests everything that the reference contains, of every token except the first of each path.
ScoreJob JobFor(const ReferenceCase& item, Backend backend) {
  const ReferenceOutputs& exact = item.exact;
  ScoreJob job;
  job.batch = item.batch;
  job.routing.backend = backend;
  job.outputs.vectors = true;
  job.outputs.scores = !exact.scores.values.empty();
  job.outputs.scope = TokenScope::kPath;
  job.outputs.token_logprobs = job.outputs.entropy = !exact.tokens.values.empty();
  return job;
}

int64_t LongestPath(const PathBatch& batch) {
  int64_t longest = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      longest = std::max(longest, batch.PathLength(question, path));
    }
  }
  return longest;
}

void ExpectNear(float actual, float expected) {
  EXPECT_NEAR(actual, expected, kMaxError * (1 + std::abs(expected)));
}

void ExpectParity(const ReferenceCase& item, const ScoreResult& result) {
  const ReferenceOutputs& exact = item.exact;
  Matrix vectors = {exact.vectors.rows, exact.vectors.columns,
                    std::vector<float>(exact.vectors.values.size())};
  ASSERT_EQ(result.vectors.size(), vectors.values.size() * sizeof(float));
  result.vectors.copy(reinterpret_cast<char*>(vectors.values.data()), result.vectors.size());
  for (const double error : SquaredRelativeErrors(vectors, exact.vectors)) {
    EXPECT_LE(std::sqrt(error), kMaxError) << "vector";
  }
  ASSERT_EQ(result.scores.size(), exact.scores.values.size());
  for (size_t i = 0; i < result.scores.size(); ++i) {
    ExpectNear(result.scores[i], exact.scores.values[i]);
  }
  const auto num_tokens = static_cast<size_t>(exact.tokens.rows);
  ASSERT_EQ(result.tokens.logprobs.size(), num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) {
    const float* const row = exact.tokens.Row(static_cast<int64_t>(i));
    ExpectNear(result.tokens.logprobs[i], row[kLogprob]);
    ExpectNear(result.tokens.entropy[i], row[kEntropy]);
  }
}

class PublishedModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PublishedModelTest, LoadsAndMatchesTransformersOnEveryPath) {
  const auto cases = ReadReferenceCases(CheckpointFolder(GetParam()));
  ASSERT_TRUE(cases.ok()) << cases.status();
  auto runner = LoadTorchRunner(CheckpointOptions(GetParam(), "float32"));
  ASSERT_TRUE(runner.ok()) << runner.status();
  const auto engine = StartEngine(*std::move(runner), kMaxBatchTokens);
  const ModelInfo& model = *engine->models().front();
  std::vector<Backend> backends = {Backend::kPath};
  if (model.tree_supported) {
    backends.insert(backends.end(), {Backend::kDense, Backend::kSegmented});
  }
  if (model.fused_supported) {
    backends.push_back(Backend::kFused);
  }
  for (const Backend backend : backends) {
    for (const auto& [name, item] : *cases) {
      SCOPED_TRACE(absl::StrCat(name, " by ", BackendName(backend)));
      EXPECT_EQ(model.has_lm_head, !item.exact.tokens.values.empty());
      EXPECT_LE(LongestPath(*item.batch), model.max_path_tokens);
      ExpectParity(item, Ask(*engine, JobFor(item, backend)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PublishedModelTest, ::testing::ValuesIn(CheckpointNames()),
                         [](const auto& info) { return info.param; });

TEST(PublishedModelRefusalTest, WhatWouldChangeAScoreIsRefusedWithTheReason) {
  std::ifstream file(CheckpointFolder("refused.json"));
  const nlohmann::json refused = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(refused.is_object());
  for (const auto& [name, error] : refused.items()) {
    const absl::Status status = LoadTorchRunner(CheckpointOptions(name, "float32")).status();
    EXPECT_TRUE(absl::StrContains(status.message(), error.get<std::string>())) << name << status;
  }
}

}  // namespace
}  // namespace canopy
