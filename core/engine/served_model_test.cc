#include "core/engine/served_model.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::FakeModelInfo;
using testing::FakeRunner;

std::shared_ptr<ModelRunner> Runner(const std::function<void(ModelInfo&)>& change = nullptr) {
  ModelInfo info = FakeModelInfo();
  info.version = 2;
  info.fingerprint = "2222222222222222";
  if (change) {
    change(info);
  }
  return std::make_shared<FakeRunner>(info);
}

TEST(ServedModelTest, ReplacementsServeAndReplacedWeightsAreFreed) {
  auto first = std::make_shared<FakeRunner>();
  const std::weak_ptr<ModelRunner> watched = first;
  ServedModel model(std::move(first));
  std::shared_ptr<ModelRunner> user = model.runner();
  EXPECT_EQ(model.info()->version, 1);
  ASSERT_TRUE(model.Replace(Runner(), "").ok());
  EXPECT_EQ(model.info()->version, 2);
  EXPECT_EQ(model.info()->fingerprint, "2222222222222222");
  EXPECT_EQ(user->info()->version, 1);
  EXPECT_FALSE(watched.expired());
  user = nullptr;
  EXPECT_TRUE(watched.expired());
}

TEST(ServedModelTest, ADifferentPropertyIsNamedAndTheOldWeightsStay) {
  const std::pair<std::function<void(ModelInfo&)>, std::string> cases[] = {
      {[](ModelInfo& info) { info.architecture = "Other"; },
       "architecture Other, and FakeForSequenceClassification is served"},
      {[](ModelInfo& info) { info.parameters = 7; }, "parameters 7, and 1 is served"},
      {[](ModelInfo& info) { info.hidden_size = 16; }, "hidden_size 16, and 8 is served"},
      {[](ModelInfo& info) { info.vocab_size = 999; }, "vocab_size 999, and 1000 is served"},
      {[](ModelInfo& info) { info.vocabulary_hash = ""; },
       "vocabulary_hash none, and 00ff00ff00ff00ff is served"},
      {[](ModelInfo& info) { info.max_path_tokens = 5; }, "max_path_tokens 5, and 2048 is served"},
      {[](ModelInfo& info) { info.score_head = ScoreHead::kDecision; },
       "score head decision, and reward is served"},
      {[](ModelInfo& info) { info.num_labels = 0; }, "score head none, and reward is served"},
      {[](ModelInfo& info) { info.num_labels = 3; }, "num_labels 3, and 1 is served"},
      {[](ModelInfo& info) { info.has_lm_head = true; },
       "language-model head there, and none is served"},
      {[](ModelInfo& info) { info.has_value_head = false; },
       "value head none, and there is served"},
      {[](ModelInfo& info) { info.dtype = "float16"; }, "dtype float16, and float32 is served"},
      {[](ModelInfo& info) { info.device = "cuda:0"; }, "device cuda:0, and cpu is served"},
      {[](ModelInfo& info) { info.tree_supported = false; },
       "tree backends none, and there is served"},
      {[](ModelInfo& info) { info.fused_supported = true; },
       "fused backend there, and none is served"},
      {[](ModelInfo& info) { info.version = 1; }, "version 1 cannot follow version 1"},
      {[](ModelInfo& info) { info.version = 3; }, "version 3 cannot follow version 1"},
  };
  for (const auto& [change, text] : cases) {
    ServedModel model(std::make_shared<FakeRunner>());
    const absl::Status refused = model.Replace(Runner(change), "");
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), text)) << refused;
    EXPECT_EQ(model.info()->version, 1);
  }
}

TEST(ServedModelTest, AnotherFingerprintIsRefusedWithBoth) {
  ServedModel model(std::make_shared<FakeRunner>());
  const absl::Status refused = model.Replace(Runner(), "3333333333333333");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_TRUE(absl::StrContains(refused.message(), "2222222222222222")) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "3333333333333333")) << refused;
  EXPECT_EQ(model.info()->version, 1);
  EXPECT_TRUE(model.Replace(Runner(), "2222222222222222").ok());
}

}  // namespace
}  // namespace canopy
