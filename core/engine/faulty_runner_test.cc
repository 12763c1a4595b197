// A runner whose results do not have the sizes of their plan. The job ends with INTERNAL and both
// numbers, and no list is read or written out of bounds.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/answer.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::Answer;
using testing::FakeModelInfo;
using testing::FakeRunner;

using Fault = std::function<void(PartOutput*)>;

ModelInfo EverythingInfo() {
  ModelInfo info = FakeModelInfo();
  info.num_labels = 2;
  info.has_lm_head = true;
  return info;
}

// Returns right results, which `fault` then changes.
class FaultyRunner : public FakeRunner {
 public:
  FaultyRunner(const ModelInfo& info, Fault fault) : FakeRunner(info), fault_(std::move(fault)) {}

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    absl::StatusOr<PartOutput> output = FakeRunner::Run(plan, outputs);
    if (output.ok()) {
      fault_(&*output);
    }
    return output;
  }

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override {
    absl::StatusOr<std::vector<float>> scores = FakeRunner::Decide(input);
    if (scores.ok()) {
      PartOutput output;
      output.scores = *std::move(scores);
      fault_(&output);
      scores = std::move(output.scores);
    }
    return scores;
  }

 private:
  const Fault fault_;
};

OutputSelection Everything() {
  OutputSelection outputs;
  for (const OutputSpec& spec : kOutputs) {
    Ask(spec.output, 2, &outputs);
  }
  return outputs;
}

// Scores three paths with 1, 2 and 2 tokens of their own.
absl::StatusOr<ScoreResult> Score(const ModelInfo& info, const OutputSelection& outputs,
                                  Fault fault) {
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::make_unique<FaultyRunner>(info, std::move(fault)));
  const auto engine = Engine::Create({}, std::move(runners));
  EXPECT_TRUE(engine.ok()) << engine.status();
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  batch->AddQuestion(std::vector<int32_t>{1, 2}, std::vector<std::vector<int32_t>>{{3}, {4, 5}});
  batch->AddQuestion(std::vector<int32_t>{6}, std::vector<std::vector<int32_t>>{{7, 8}});
  ScoreJob job;
  job.batch = std::move(batch);
  job.outputs = outputs;
  job.routing.backend = Backend::kDense;
  Answer answer;
  const absl::Status submitted = (*engine)->Submit(std::move(job), answer.callback());
  EXPECT_TRUE(submitted.ok()) << submitted;
  return answer.Await();
}

struct FaultCase {
  std::string message;
  Fault fault;
};

TEST(FaultyRunnerTest, EverySizeIsCheckedAgainstThePlan) {
  ASSERT_TRUE(Score(EverythingInfo(), Everything(), [](PartOutput*) {}).ok());
  const std::vector<FaultCase> cases = {
      {"finite has size 2 instead of 3", [](PartOutput* o) { o->finite.pop_back(); }},
      {"finite has size 0 instead of 3", [](PartOutput* o) { o->finite.clear(); }},
      {"finite has size 4 instead of 3", [](PartOutput* o) { o->finite.push_back(1); }},
      {"inner_finite has size 1 instead of 3", [](PartOutput* o) { o->inner_finite = {1}; }},
      {"unscored has size 4 instead of 3", [](PartOutput* o) { o->unscored.assign(4, 0); }},
      // There is a third label for each of the three paths, or the second is missing.
      {"scores has size 9 instead of 6", [](PartOutput* o) { o->scores.resize(9); }},
      {"scores has size 3 instead of 6", [](PartOutput* o) { o->scores.resize(3); }},
      {"vectors has size 192 instead of 96", [](PartOutput* o) { o->vectors.resize(192); }},
      {"vectors has size 95 instead of 96", [](PartOutput* o) { o->vectors.pop_back(); }},
      {"endpoints has size 24 instead of 0", [](PartOutput* o) { o->endpoints.resize(24); }},
      {"tokens.entries has size 3 instead of 4",
       [](PartOutput* o) { o->tokens.entries.offsets.pop_back(); }},
      {"tokens.entries has size 0 instead of 4",
       [](PartOutput* o) { o->tokens.entries.offsets.clear(); }},
      {"tokens.entries begins at 1 instead of 0",
       [](PartOutput* o) { ++o->tokens.entries.offsets[0]; }},
      {"tokens.entries falls from 9 to 3", [](PartOutput* o) { o->tokens.entries.offsets[1] = 9; }},
      {"path 0 has 2 per-token entries instead of 1",
       [](PartOutput* o) { ++o->tokens.entries.offsets[1]; }},
      {"tokens.logprobs has size 4 instead of 5",
       [](PartOutput* o) { o->tokens.logprobs.pop_back(); }},
      {"tokens.entropy has size 0 instead of 5", [](PartOutput* o) { o->tokens.entropy.clear(); }},
      {"tokens.min_logit has size 6 instead of 5",
       [](PartOutput* o) { o->tokens.min_logit.push_back(0); }},
      {"tokens.max_logit has size 4 instead of 5",
       [](PartOutput* o) { o->tokens.max_logit.pop_back(); }},
      {"tokens.top_ids has size 5 instead of 10",
       [](PartOutput* o) { o->tokens.top_ids.resize(5); }},
      {"tokens.top_logprobs has size 15 instead of 10",
       [](PartOutput* o) { o->tokens.top_logprobs.resize(15); }},
      {"tokens.ranks has size 4 instead of 5", [](PartOutput* o) { o->tokens.ranks.pop_back(); }},
      {"values.entries has size 5 instead of 4",
       [](PartOutput* o) { o->values.entries.offsets.push_back(5); }},
      {"values.entries falls from 3 to 2", [](PartOutput* o) { o->values.entries.offsets[3] = 2; }},
      {"path 2 has 3 per-token entries instead of 2",
       [](PartOutput* o) {
         ++o->values.entries.offsets[3];
         o->values.values.push_back(0);
       }},
      {"values.values has size 10 instead of 5",
       [](PartOutput* o) { o->values.values.resize(10); }},
  };
  for (const FaultCase& each : cases) {
    const auto result = Score(EverythingInfo(), Everything(), each.fault);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal) << each.message;
    EXPECT_TRUE(absl::StrContains(result.status().message(), each.message))
        << result.status() << " lacks " << each.message;
  }
}

TEST(FaultyRunnerTest, OutputsThatWereNotAskedForAreRefusedToo) {
  const auto result = Score(EverythingInfo(), OutputSelection(), [](PartOutput* o) {
    o->tokens.entries.offsets = {0, 1, 2, 3};
  });
  EXPECT_EQ(result.status(),
            absl::InternalError("the runner's tokens.entries has size 4 instead of 0"));
}

TEST(FaultyRunnerTest, TheDecisionHeadIsCheckedAgainstTheRequest) {
  ModelInfo info = FakeModelInfo();
  info.score_head = ScoreHead::kDecision;
  OutputSelection outputs;
  outputs.scores = true;
  EXPECT_EQ(
      Score(info, outputs, [](PartOutput* o) { o->endpoints.resize(o->endpoints.size() / 2); })
          .status(),
      absl::InternalError("the runner's endpoints has size 12 instead of 24"));
  for (const size_t size : {2U, 4U}) {
    const auto result = Score(info, outputs, [size](PartOutput* o) {
      if (!o->scores.empty()) {
        o->scores.resize(size);
      }
    });
    EXPECT_EQ(result.status(),
              absl::InternalError(
                  absl::StrCat("the runner's decision scores have size ", size, " instead of 3")));
  }
}

}  // namespace
}  // namespace canopy
