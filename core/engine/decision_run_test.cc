// Models with a head over whole questions, through the engine: the collection of its input, and
// errors.
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status_details.h"
#include "core/engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::FakeControls;
using testing::FakeDecision;
using testing::FakeModelInfo;
using testing::FakeRunner;
using testing::FakeVector;

ModelInfo DecisionInfo() {
  ModelInfo info = FakeModelInfo();
  info.score_head = ScoreHead::kDecision;
  return info;
}

// Returns `answer` if it is set.
class ScriptedRunner : public FakeRunner {
 public:
  ScriptedRunner(std::shared_ptr<FakeControls> controls, absl::StatusOr<std::vector<float>> answer)
      : FakeRunner(DecisionInfo(), std::move(controls)), answer_(std::move(answer)) {}

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& /*input*/) override {
    return answer_;
  }

 private:
  const absl::StatusOr<std::vector<float>> answer_;
};

absl::StatusOr<ScoreResult> Score(std::unique_ptr<ModelRunner> runner,
                                  std::shared_ptr<const PathBatch> batch) {
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::move(runner));
  const auto engine = Engine::Create({}, std::move(runners));
  EXPECT_TRUE(engine.ok()) << engine.status();
  ScoreJob job;
  job.batch = std::move(batch);
  job.outputs.scores = true;
  job.outputs.vectors = true;
  job.routing.backend = Backend::kDense;
  absl::StatusOr<ScoreResult> result = absl::UnknownError("not answered");
  Notification done;
  const absl::Status submitted =
      (*engine)->Submit(std::move(job), [&](absl::StatusOr<ScoreResult> answer) {
        result = std::move(answer);
        done.Notify();
      });
  EXPECT_TRUE(submitted.ok()) << submitted;
  done.WaitForNotification();
  return result;
}

std::shared_ptr<const PathBatch> TwoQuestions() {
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  batch->AddQuestion(std::vector<int32_t>{1, 2},
                     std::vector<std::vector<int32_t>>{{3}, {4}, {5, 6, 7}, {8}});
  batch->AddQuestion(std::vector<int32_t>{9}, std::vector<std::vector<int32_t>>{{1, 2}, {3}});
  return batch;
}

std::vector<float> ExpectedScores() {
  const std::vector<std::vector<std::vector<int32_t>>> questions = {
      {{1, 2, 3}, {1, 2, 4}, {1, 2, 5, 6, 7}, {1, 2, 8}}, {{9, 1, 2}, {9, 3}}};
  std::vector<float> scores;
  for (const auto& paths : questions) {
    std::vector<std::vector<float>> vectors;
    vectors.reserve(paths.size());
    for (const std::vector<int32_t>& path : paths) {
      vectors.push_back(FakeVector(path, 8));
    }
    for (size_t i = 0; i < vectors.size(); ++i) {
      scores.push_back(FakeDecision(vectors, i));
    }
  }
  return scores;
}

TEST(DecisionRunTest, ScoresComeFromWholeQuestions) {
  const auto result = Score(std::make_unique<FakeRunner>(DecisionInfo()), TwoQuestions());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->scores, ExpectedScores());
  EXPECT_EQ(result->vectors.size(), 6U * 8 * 4);
  EXPECT_TRUE(result->endpoints.empty());
}

TEST(DecisionRunTest, HalvedPartsAreCollectedToo) {
  auto controls = std::make_shared<FakeControls>();
  controls->LimitSlots(5);
  const auto result = Score(std::make_unique<FakeRunner>(DecisionInfo(), controls), TwoQuestions());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->parts, 2);
  EXPECT_EQ(result->scores, ExpectedScores());
}

TEST(DecisionRunTest, AHeadThatOverflowsLeavesItsCandidatesUnscored) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto result =
      Score(std::make_unique<ScriptedRunner>(std::make_shared<FakeControls>(),
                                             std::vector<float>{1, kInfinity, 2, 3, 4, 5}),
            TwoQuestions());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->finite, (std::vector<uint8_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(result->unscored, (std::vector<OutputSet>{0, BitOf(Output::kScores), 0, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(result->scores[1]));
  EXPECT_EQ(result->scores[5], 5);
}

TEST(DecisionRunTest, ErrorsOfTheHeadAreTheJobs) {
  const auto controls = std::make_shared<FakeControls>();
  const absl::Status too_large =
      Score(std::make_unique<ScriptedRunner>(controls, absl::ResourceExhaustedError("no memory")),
            TwoQuestions())
          .status();
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReasonName(too_large), "QUESTION_TOO_LARGE_FOR_DEVICE");
  const absl::Status lost =
      Score(std::make_unique<ScriptedRunner>(controls, absl::UnavailableError("lost")),
            TwoQuestions())
          .status();
  EXPECT_EQ(lost, absl::UnavailableError("lost"));
}

}  // namespace
}  // namespace canopy
