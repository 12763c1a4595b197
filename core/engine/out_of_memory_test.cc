// Forwards that run out of device memory: the engine reports them, keeps its results, and does not
// try the same size again.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/answer.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::Answer;
using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;
using testing::FakeScore;

// Records the contents of each forward.
struct Runs {
  std::vector<int64_t> fitted;  // the tokens of forwards that ran
  std::vector<int64_t> failed;  // the tokens of forwards that failed
  int64_t paths = 0;            // the paths that ran, with repetitions
};

class RecordingRunner : public FakeRunner {
 public:
  RecordingRunner(const ModelInfo& info, std::shared_ptr<FakeControls> controls, Runs* runs)
      : FakeRunner(info, std::move(controls)), runs_(*runs) {}

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    absl::StatusOr<PartOutput> output = FakeRunner::Run(plan, outputs);
    (output.ok() ? runs_.fitted : runs_.failed).push_back(plan.computed_tokens());
    runs_.paths += output.ok() ? static_cast<int64_t>(plan.paths.size()) : 0;
    return output;
  }

 private:
  Runs& runs_;
};

class OutOfMemoryTest : public ::testing::Test {
 protected:
  void Start(int64_t max_batch_tokens = 16'384) {
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<RecordingRunner>(FakeModelInfo(), controls_, &runs_));
    Engine::Options options;
    options.scheduler.max_batch_tokens = max_batch_tokens;
    options.on_forward = on_forward_;
    auto engine = Engine::Create(options, std::move(runners));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // Each question has a prefix of 2 tokens and 4 candidates of 2 tokens: 10 tokens in a trie.
  static std::shared_ptr<const PathBatch> Questions(int count) {
    auto batch = std::make_shared<PathBatch>();
    batch->question_offsets = {0};
    for (int32_t question = 0; question < count; ++question) {
      std::vector<std::vector<int32_t>> suffixes;
      suffixes.reserve(4);
      for (int32_t candidate = 0; candidate < 4; ++candidate) {
        suffixes.push_back({10 + candidate, 20 + question});
      }
      batch->AddQuestion(std::vector<int32_t>{1, 100 + question}, suffixes);
    }
    return batch;
  }

  ScoreResult Score(const std::shared_ptr<const PathBatch>& batch,
                    Backend backend = Backend::kDense) {
    ScoreJob job;
    job.batch = batch;
    job.outputs.scores = true;
    job.routing.backend = backend;
    Answer answer;
    const absl::Status submitted = engine_->Submit(std::move(job), answer.callback());
    EXPECT_TRUE(submitted.ok()) << submitted;
    const absl::StatusOr<ScoreResult>& result = answer.Await();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) {
      return {};
    }
    ExpectScores(*batch, *result);
    return *result;
  }

  static void ExpectScores(const PathBatch& batch, const ScoreResult& result) {
    ASSERT_EQ(result.scores.size(), batch.suffixes.size());
    for (int32_t question = 0; question < batch.num_questions(); ++question) {
      for (int32_t path = batch.question_offsets[question];
           path < batch.question_offsets[question + 1]; ++path) {
        const auto prefix = batch.Tokens(batch.prefixes[question]);
        const auto suffix = batch.Tokens(batch.suffixes[path]);
        std::vector<int32_t> tokens(prefix.begin(), prefix.end());
        tokens.insert(tokens.end(), suffix.begin(), suffix.end());
        EXPECT_EQ(result.scores[path], FakeScore(tokens, 0)) << path;
      }
    }
  }

  Runs runs_;
  Engine::ForwardObserver on_forward_;
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  std::unique_ptr<Engine> engine_;
};

TEST_F(OutOfMemoryTest, TheAnswerHasTheReasonAndTheForwardIsCounted) {
  Start();
  const ScoreResult whole = Score(Questions(8));
  controls_->LimitSlots(50);
  const ScoreResult result = Score(Questions(8));
  EXPECT_EQ(result.route.reason, Reason::kOutOfMemory);
  EXPECT_EQ(result.route.backend, whole.route.backend);
  EXPECT_EQ(result.route.layout, whole.route.layout);
  EXPECT_EQ(result.counts.unique_tokens, whole.counts.unique_tokens);
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{80}));
  EXPECT_EQ(result.parts, 3);
  EXPECT_EQ(result.computed_tokens, 80 + 2 * 40);
  EXPECT_EQ(engine_->stats().out_of_memory_forwards, 1);
}

TEST_F(OutOfMemoryTest, TheNextRequestIsCutBelowTheFailedSize) {
  Start();
  controls_->LimitSlots(50);
  for (const Backend backend : {Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    Score(Questions(8), backend);
  }
  // On the path backend a question has 16 tokens, and parts contain whole questions, so a part has
  // at most 32 tokens.
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{80}));
  EXPECT_LE(*std::max_element(runs_.fitted.begin(), runs_.fitted.end()), 40);
  // This request does not run out of memory.
  EXPECT_EQ(Score(Questions(8)).route.reason, Reason::kNone);
}

TEST_F(OutOfMemoryTest, FinishedPartsAreKept) {
  Start(/*max_batch_tokens=*/40);
  controls_->FailForwards(2, 1);  // the third of four parts
  const ScoreResult result = Score(Questions(16));
  EXPECT_EQ(result.route.reason, Reason::kOutOfMemory);
  EXPECT_EQ(runs_.fitted, (std::vector<int64_t>{40, 40, 20, 20, 20, 20}));
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{40}));
  EXPECT_EQ(runs_.paths, 16 * 4);
  EXPECT_EQ(result.parts, 7);
}

TEST_F(OutOfMemoryTest, ManyFailuresInARowKeepFinishedPartsToo) {
  Start(/*max_batch_tokens=*/80);
  controls_->FailForwards(1, 2);
  const ScoreResult result = Score(Questions(16));
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{80, 40}));
  EXPECT_EQ(runs_.fitted, (std::vector<int64_t>{80, 20, 20, 20, 20}));
  EXPECT_EQ(runs_.paths, 16 * 4);
  EXPECT_EQ(result.parts, 7);
}

TEST_F(OutOfMemoryTest, PartsOfOneQuestionAreKeptToo) {
  Start(/*max_batch_tokens=*/64);
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  std::vector<std::vector<int32_t>> suffixes;
  suffixes.reserve(100);
  for (int32_t candidate = 0; candidate < 100; ++candidate) {
    suffixes.push_back({200 + candidate, 300 + candidate});
  }
  batch->AddQuestion(std::vector<int32_t>{1, 2}, suffixes);
  controls_->FailForwards(2, 1);
  Score(batch);
  ASSERT_EQ(runs_.failed.size(), 1U);
  // A part of the smaller cut may overlap with finished parts.
  EXPECT_LT(runs_.paths, 100 + 32);
}

// Memory may have been short only for a moment.
TEST_F(OutOfMemoryTest, ASinglePathIsTriedOnceMore) {
  Start();
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  batch->AddQuestion(std::vector<int32_t>{1, 2}, std::vector<std::vector<int32_t>>{{3, 4}});
  controls_->FailForwards(0, 1);
  EXPECT_EQ(Score(batch, Backend::kPath).route.reason, Reason::kOutOfMemory);
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{4}));
  EXPECT_EQ(runs_.fitted, (std::vector<int64_t>{4}));
}

TEST_F(OutOfMemoryTest, ARerunOfWhatIsNotFiniteTriesASinglePathOnceMoreToo) {
  int forwards = 0;
  on_forward_ = [&](const ForwardRecord&) {
    // The rerun comes after four forwards; this is its first one.
    if (++forwards == 4) {
      controls_->FailForwards(0, 1);
    }
  };
  Start();
  auto batch = std::make_shared<PathBatch>();
  batch->AddQuestion(std::vector<int32_t>{1, 2}, std::vector<std::vector<int32_t>>{{3, 4}, {3, 5}});
  controls_->PoisonToken(3);
  // Both paths run together, and then the first one alone.
  controls_->FailForwards(0, 2);
  ScoreJob job;
  job.batch = batch;
  job.outputs.scores = true;
  job.routing.backend = Backend::kDense;
  Answer answer;
  ASSERT_TRUE(engine_->Submit(std::move(job), answer.callback()).ok());
  ASSERT_TRUE(answer.Await().ok()) << answer.Await().status();
  EXPECT_EQ(answer.Await()->route.reason, Reason::kNonFiniteRerun);
  engine_->Drain();
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{5, 4, 4}));
  EXPECT_EQ(runs_.fitted, (std::vector<int64_t>{4, 4, 4, 4}));
}

// After one job has lowered the limit, the next job runs in parts, and the queue counts the tokens
// of the parts that still wait.
TEST_F(OutOfMemoryTest, WaitingPartsCountWithTheirTokens) {
  std::vector<int64_t> queued;
  on_forward_ = [&](const ForwardRecord&) { queued.push_back(engine_->stats().queued_tokens); };
  Start();
  controls_->LimitSlots(20);
  // The pace is slow enough that the next part is planned while one runs.
  controls_->Pace(absl::Milliseconds(3));
  Score(Questions(16));  // 160 tokens; the limit is then 20
  queued.clear();
  Score(Questions(16));
  ASSERT_EQ(queued.size(), 8U);
  for (size_t part = 0; part < queued.size(); ++part) {
    EXPECT_LE(queued[part], 140 - 20 * static_cast<int64_t>(part)) << part;
  }
}

TEST_F(OutOfMemoryTest, ARerunOfPathsThatAreNotFiniteStartsWithoutResults) {
  Start();
  controls_->PoisonToken(103);
  controls_->LimitSlots(50);
  ScoreJob job;
  job.batch = Questions(8);
  job.outputs.scores = true;
  job.routing.backend = Backend::kDense;
  Answer answer;
  ASSERT_TRUE(engine_->Submit(std::move(job), answer.callback()).ok());
  const ScoreResult& result = *answer.Await();
  EXPECT_EQ(result.route.reason, Reason::kNonFiniteRerun);
  for (int path = 0; path < 32; ++path) {
    EXPECT_EQ(result.finite[path], path / 4 != 3) << path;
  }
}

TEST_F(OutOfMemoryTest, TheLimitRisesAgainOnceForwardsFit) {
  Start();
  controls_->FailForwards(0, 1);
  Score(Questions(8));
  EXPECT_EQ(runs_.fitted, (std::vector<int64_t>{40, 40}));
  int requests = 0;
  for (; runs_.fitted.back() < 80 && requests < 400; ++requests) {
    Score(Questions(8));
  }
  // 64 forwards have at most 40 tokens, 64 at most 45, and 64 at most 56.
  EXPECT_GT(requests, 80);
  EXPECT_LT(requests, 110);
}

TEST_F(OutOfMemoryTest, NewWeightsForgetTheLimit) {
  Start();
  controls_->LimitSlots(50);
  Score(Questions(8));
  controls_->LimitSlots(0);
  ModelInfo info = FakeModelInfo();
  info.version = 2;
  // The scores are those of version 2, which this test does not check.
  Runs runs;
  ASSERT_TRUE(
      engine_->ReplaceModel(std::make_shared<RecordingRunner>(info, controls_, &runs), "").ok());
  ScoreJob job;
  job.batch = Questions(8);
  job.outputs.scores = true;
  job.routing.backend = Backend::kDense;
  Answer answer;
  ASSERT_TRUE(engine_->Submit(std::move(job), answer.callback()).ok());
  ASSERT_TRUE(answer.Await().ok());
  EXPECT_EQ(runs.fitted, (std::vector<int64_t>{80}));
}

// A job in parts keeps the weights with which it began.
TEST_F(OutOfMemoryTest, APartOnReplacedWeightsSetsNoLimitForTheNewOnes) {
  Start(/*max_batch_tokens=*/40);
  controls_->gate.Close();
  const auto submit = [this](Answer* answer) {
    ScoreJob job;
    job.batch = Questions(8);
    job.outputs.scores = true;
    job.routing.backend = Backend::kDense;
    ASSERT_TRUE(engine_->Submit(std::move(job), answer->callback()).ok());
  };
  Answer old_answer;
  submit(&old_answer);
  controls_->gate.AwaitWaiter();
  ModelInfo info = FakeModelInfo();
  info.version = 2;
  Runs runs;
  ASSERT_TRUE(
      engine_->ReplaceModel(std::make_shared<RecordingRunner>(info, controls_, &runs), "").ok());
  controls_->FailForwards(1, 1);  // the second of two parts
  controls_->gate.Open();
  ASSERT_TRUE(old_answer.Await().ok());
  Answer new_answer;
  submit(&new_answer);
  ASSERT_TRUE(new_answer.Await().ok());
  engine_->Drain();
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{40}));
  EXPECT_EQ(runs_.fitted, (std::vector<int64_t>{40, 20, 20}));
  EXPECT_EQ(runs.fitted, (std::vector<int64_t>{40, 40}));
}

// A forward that was planned while the failed one ran, and is as large, is cut without being tried.
TEST_F(OutOfMemoryTest, AForwardThatWasPlannedBeforeIsCutToo) {
  Start();
  controls_->LimitSlots(50);
  controls_->gate.Close();
  std::vector<std::unique_ptr<Answer>> answers;
  for (int i = 0; i < 4; ++i) {
    ScoreJob job;
    job.batch = Questions(8);
    job.outputs.scores = true;
    job.routing.backend = Backend::kDense;
    answers.push_back(std::make_unique<Answer>());
    ASSERT_TRUE(engine_->Submit(std::move(job), answers.back()->callback()).ok());
  }
  controls_->gate.Open();
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer->Await().ok());
    ExpectScores(*Questions(8), *answer->Await());
  }
  engine_->Drain();
  EXPECT_EQ(runs_.failed, (std::vector<int64_t>{80}));
}

}  // namespace
}  // namespace canopy
