#include "core/engine/engine.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status_details.h"
#include "core/tree/route_costs.h"
#include "gmock/gmock.h"
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
using testing::FakeVector;
using ::testing::HasSubstr;

class EngineTest : public ::testing::Test {
 protected:
  void Start(const Engine::Options& options = {}, const ModelInfo& info = FakeModelInfo()) {
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<FakeRunner>(info, controls_));
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(options, std::move(runners));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // Returns `num_questions` questions of `num_candidates` paths, with random tokens below 900.
  static std::shared_ptr<const PathBatch> RandomBatch(int num_questions, int num_candidates,
                                                      int prefix_tokens) {
    static std::mt19937 random(20'231'117);
    const auto draw = [](int size) {
      std::vector<int32_t> tokens(static_cast<size_t>(size));
      for (int32_t& token : tokens) {
        token = static_cast<int32_t>(random() % 900);
      }
      return tokens;
    };
    auto batch = std::make_shared<PathBatch>();
    for (int question = 0; question < num_questions; ++question) {
      std::vector<std::vector<int32_t>> suffixes;
      suffixes.reserve(static_cast<size_t>(num_candidates));
      for (int candidate = 0; candidate < num_candidates; ++candidate) {
        suffixes.push_back(draw(1 + static_cast<int>(random() % 7)));
      }
      batch->AddQuestion(draw(prefix_tokens), suffixes);
    }
    return batch;
  }

  static ScoreJob ScoreAll(std::shared_ptr<const PathBatch> batch) {
    ScoreJob job;
    job.batch = std::move(batch);
    job.outputs.scores = true;
    return job;
  }

  absl::StatusOr<ScoreResult> Run(ScoreJob job) {
    Answer answer;
    const absl::Status submitted = engine_->Submit(std::move(job), answer.callback());
    return submitted.ok() ? answer.Await() : submitted;
  }

  static std::vector<int32_t> Path(const PathBatch& batch, int32_t question, int32_t path) {
    const auto prefix = batch.Tokens(batch.prefixes[question]);
    const auto suffix = batch.Tokens(batch.suffixes[path]);
    std::vector<int32_t> tokens(prefix.begin(), prefix.end());
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
    return tokens;
  }

  // Expects every path to have the score of its tokens, except paths with `poison`.
  static void ExpectScores(const PathBatch& batch, const ScoreResult& result, int32_t poison = -1) {
    ASSERT_EQ(result.scores.size(), batch.suffixes.size());
    for (int32_t question = 0; question < batch.num_questions(); ++question) {
      for (int32_t path = batch.question_offsets[question];
           path < batch.question_offsets[question + 1]; ++path) {
        const std::vector<int32_t> tokens = Path(batch, question, path);
        if (std::find(tokens.begin(), tokens.end(), poison) != tokens.end()) {
          EXPECT_TRUE(std::isnan(result.scores[path])) << "path " << path;
          EXPECT_EQ(result.finite[path], 0);
        } else {
          EXPECT_EQ(result.scores[path], FakeScore(tokens, 0)) << "path " << path;
          EXPECT_EQ(result.finite[path], 1);
        }
      }
    }
  }

  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, ScoresEveryPathInRequestOrderOnEveryBackend) {
  Start();
  const auto batch = RandomBatch(7, 9, 40);
  for (const Backend backend :
       {Backend::kAuto, Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    ScoreJob job = ScoreAll(batch);
    job.routing.backend = backend;
    const absl::StatusOr<ScoreResult> result = Run(std::move(job));
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectScores(*batch, *result);
    EXPECT_EQ(result->parts, 1);
    EXPECT_EQ(result->model->name, "fake");
  }
}

TEST_F(EngineTest, CutsLargeRequestsAndMergesTheParts) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 64;
  Start(options);
  const auto batch = RandomBatch(5, 30, 20);
  for (const Backend backend : {Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    ScoreJob job = ScoreAll(batch);
    job.routing.backend = backend;
    job.outputs.vectors = true;
    const absl::StatusOr<ScoreResult> result = Run(std::move(job));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(result->parts, 3);
    ExpectScores(*batch, *result);
    const std::vector<float> last =
        FakeVector(Path(*batch, 4, batch->num_paths() - 1), FakeModelInfo().hidden_size);
    std::vector<float> row(last.size());
    std::memcpy(row.data(), result->vectors.data() + result->vectors.size() - 32, 32);
    EXPECT_EQ(row, last);
  }
}

TEST_F(EngineTest, HalvesWhenTheDeviceHasNoMemory) {
  Start();
  controls_->LimitSlots(80);
  const auto batch = RandomBatch(4, 40, 30);
  const absl::StatusOr<ScoreResult> result = Run(ScoreAll(batch));
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectScores(*batch, *result);
  EXPECT_GT(result->parts, 4);
}

TEST_F(EngineTest, RefusesAPathThatDoesNotFitTheDeviceAndContinues) {
  Start();
  controls_->LimitSlots(10);
  const absl::StatusOr<ScoreResult> refused = Run(ScoreAll(RandomBatch(2, 4, 30)));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(ErrorReasonName(refused.status()), "PATH_TOO_LARGE_FOR_DEVICE");
  EXPECT_FALSE(RetryAfter(refused.status()).has_value());

  const auto small = RandomBatch(1, 1, 2);
  const absl::StatusOr<ScoreResult> result = Run(ScoreAll(small));
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectScores(*small, *result);
}

TEST_F(EngineTest, OnlyPathsThatAreNotFiniteAloneStayUnscored) {
  Start();
  constexpr int32_t kPoison = 950;
  controls_->PoisonToken(kPoison);
  PathBatch batch = *RandomBatch(6, 12, 30);
  // One candidate of one question contains the token; on a forest it affects its whole row.
  const TokenSpan suffix = batch.suffixes[batch.question_offsets[2] + 5];
  batch.tokens[static_cast<size_t>(suffix.begin)] = kPoison;
  for (const Backend backend : {Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    ScoreJob job = ScoreAll(std::make_shared<const PathBatch>(batch));
    job.routing.backend = backend;
    job.outputs.vectors = true;
    job.outputs.vector_type = VectorType::kBFloat16;
    const absl::StatusOr<ScoreResult> result = Run(std::move(job));
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectScores(batch, *result, kPoison);
    EXPECT_EQ(result->route.reason,
              backend == Backend::kPath ? Reason::kRequested : Reason::kNonFiniteRerun);
    const size_t row = static_cast<size_t>(batch.question_offsets[2]) + 5;
    uint16_t first = 0;
    std::memcpy(&first, result->vectors.data() + row * 16, sizeof(first));
    EXPECT_EQ(first, 0x7fc0) << "a NaN row";
  }
}

TEST_F(EngineTest, JobsThatNobodyWaitsForNeverReachTheDevice) {
  Start();
  controls_->gate.Close();
  Answer first;
  ASSERT_TRUE(engine_->Submit(ScoreAll(RandomBatch(1, 1, 3)), first.callback()).ok());
  controls_->gate.AwaitWaiter();

  ScoreJob abandoned = ScoreAll(RandomBatch(1, 1, 3));
  abandoned.id = engine_->NewJobId();
  const JobId abandoned_id = abandoned.id;
  ScoreJob late = ScoreAll(RandomBatch(1, 1, 3));
  late.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  ScoreJob past = ScoreAll(RandomBatch(1, 1, 3));
  past.deadline = std::chrono::steady_clock::now();
  Answer abandoned_answer;
  Answer late_answer;
  ASSERT_TRUE(engine_->Submit(std::move(abandoned), abandoned_answer.callback()).ok());
  ASSERT_TRUE(engine_->Submit(std::move(late), late_answer.callback()).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine_->Submit(
      std::move(past), [](const auto&) { FAIL() << "a refused job was answered"; })));
  EXPECT_EQ(engine_->stats().queued_normal, 2);
  engine_->Cancel(abandoned_id);
  engine_->Cancel(abandoned_id);

  // Both jobs are answered while the device is still busy with the first.
  EXPECT_TRUE(absl::IsCancelled(abandoned_answer.Await().status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late_answer.Await().status()));
  EXPECT_EQ(engine_->stats().queued_normal, 0);
  controls_->gate.Open();
  EXPECT_TRUE(first.Await().ok());
  engine_->Drain();
  EXPECT_EQ(controls_->forwards(), 1);
  EXPECT_EQ(engine_->stats().wasted_device_seconds, 0);
}

TEST_F(EngineTest, AFullQueueRefusesAtOnceWithADelay) {
  Engine::Options options;
  options.scheduler.max_queued_requests = 1;
  Start(options);
  controls_->gate.Close();
  Answer running;
  Answer waiting;
  ASSERT_TRUE(engine_->Submit(ScoreAll(RandomBatch(1, 1, 3)), running.callback()).ok());
  controls_->gate.AwaitWaiter();
  ASSERT_TRUE(engine_->Submit(ScoreAll(RandomBatch(1, 1, 3)), waiting.callback()).ok());
  const absl::Status refused = engine_->Submit(
      ScoreAll(RandomBatch(1, 1, 3)), [](const auto&) { FAIL() << "a refused job was answered"; });
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("limit 1"));
  EXPECT_TRUE(RetryAfter(refused).has_value());
  controls_->gate.Open();
  EXPECT_TRUE(running.Await().ok());
  EXPECT_TRUE(waiting.Await().ok());
}

TEST_F(EngineTest, TheQueueEnforcesItsTokenBudget) {
  Engine::Options options;
  options.scheduler.max_queued_tokens = 100;
  Start(options);
  controls_->gate.Close();
  Answer running;
  Answer waiting;
  ASSERT_TRUE(engine_->Submit(ScoreAll(RandomBatch(1, 4, 60)), running.callback()).ok());
  controls_->gate.AwaitWaiter();
  // The job exceeds the budget, but no other job waits.
  ASSERT_TRUE(engine_->Submit(ScoreAll(RandomBatch(1, 4, 60)), waiting.callback()).ok());
  const absl::Status refused =
      engine_->Submit(ScoreAll(RandomBatch(1, 1, 1)), [](const auto&) { FAIL(); });
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryAfter(refused).has_value());
  controls_->gate.Open();
  EXPECT_TRUE(waiting.Await().ok());
}

// Eight clients have one request each, whose paths have eight times the tokens of their trie. A
// queue that counted the tokens of paths would refuse the last one.
TEST_F(EngineTest, TheTokenBudgetOfTheQueueCountsComputedTokens) {
  // 16 paths share 60 tokens and have 7 tokens of their own each.
  constexpr int64_t kComputed = 60 + 16 * 7;
  for (const Backend backend : {Backend::kAuto, Backend::kPath}) {
    SCOPED_TRACE(BackendName(backend));
    Engine::Options options;
    options.scheduler.max_queued_tokens = 8 * kComputed;
    options.scheduler.max_batch_tokens = 2'000;
    Start(options);
    controls_->gate.Close();
    std::vector<std::unique_ptr<Answer>> answers;
    int accepted = 0;
    for (int client = 0; client < 9; ++client) {
      std::vector<std::vector<int32_t>> suffixes;
      suffixes.reserve(16);
      for (int32_t i = 0; i < 16; ++i) {
        suffixes.push_back({i, 1, 2, 3, 4, 5, 6});
      }
      auto batch = std::make_shared<PathBatch>();
      batch->AddQuestion(std::vector<int32_t>(60, 7), suffixes);
      ScoreJob job = ScoreAll(batch);
      job.routing.backend = backend;
      job.client = std::to_string(client);
      answers.push_back(std::make_unique<Answer>());
      accepted += engine_->Submit(std::move(job), answers.back()->callback()).ok() ? 1 : 0;
      if (client == 0) {
        // The job on the device does not wait.
        controls_->gate.AwaitWaiter();
      }
    }
    if (backend == Backend::kAuto) {
      EXPECT_EQ(accepted, 9);
      EXPECT_EQ(engine_->stats().queued_tokens, 8 * kComputed);
    } else {
      EXPECT_EQ(accepted, 1 + 8 * kComputed / (16 * 67)) << "path computes all of them";
    }
    controls_->gate.Open();
    engine_->Drain();
  }
}

TEST_F(EngineTest, DrainAnswersWhatWasAcceptedAndRefusesTheRest) {
  Start();
  controls_->gate.Close();
  std::vector<Answer> answers(5);
  for (Answer& answer : answers) {
    ASSERT_TRUE(engine_->Submit(ScoreAll(RandomBatch(1, 2, 3)), answer.callback()).ok());
  }
  controls_->gate.AwaitWaiter();
  std::thread drain([this] { engine_->Drain(); });
  // Until the drain has begun, further work is accepted.
  std::vector<std::unique_ptr<Answer>> late;
  absl::Status refused;
  while (refused.ok()) {
    late.push_back(std::make_unique<Answer>());
    refused = engine_->Submit(ScoreAll(RandomBatch(1, 1, 3)), late.back()->callback());
  }
  EXPECT_TRUE(absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused)) << refused;
  controls_->gate.Open();
  drain.join();
  for (Answer& answer : answers) {
    EXPECT_TRUE(answer.Await().ok());
  }
  EXPECT_TRUE(absl::IsUnavailable(
      engine_->Submit(ScoreAll(RandomBatch(1, 1, 3)), [](const auto&) { FAIL(); })));
}

TEST_F(EngineTest, ALostDeviceStaysUnhealthy) {
  Start();
  controls_->FailWith(absl::UnavailableError("illegal address"));
  EXPECT_TRUE(absl::IsUnavailable(Run(ScoreAll(RandomBatch(1, 1, 3))).status()));
  EXPECT_FALSE(engine_->healthy());
  controls_->FailWith(absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(Run(ScoreAll(RandomBatch(1, 1, 3))).status()));
  EXPECT_EQ(controls_->forwards(), 1);
}

TEST_F(EngineTest, AnotherErrorOfTheRunnerIsThatRequestsOnly) {
  Start();
  controls_->FailWith(absl::InternalError("a fault"));
  EXPECT_TRUE(absl::IsInternal(Run(ScoreAll(RandomBatch(1, 1, 3))).status()));
  controls_->FailWith(absl::OkStatus());
  EXPECT_TRUE(Run(ScoreAll(RandomBatch(1, 1, 3))).ok());
  EXPECT_TRUE(engine_->healthy());
}

TEST_F(EngineTest, APickOfAutoThatDoesNotRunFallsBackToPath) {
  Start();
  const auto batch = RandomBatch(2, 20, 100);
  ScoreJob job = ScoreAll(batch);
  const Backend pick = Run(job)->route.backend;
  ASSERT_NE(pick, Backend::kPath);
  controls_->FailBackend(pick);
  const auto result = Run(job);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectScores(*batch, *result);
  EXPECT_EQ(result->route.backend, Backend::kPath);
  EXPECT_EQ(result->route.reason, Reason::kBackendFailed);
  // A backend that the caller names is never replaced, and path has no fallback.
  job.routing.backend = pick;
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(job).status()));
  job.routing.backend = Backend::kAuto;
  job.routing.max_mask_bytes = 0;
  controls_->FailBackend(Backend::kPath);
  const int64_t before = controls_->forwards();
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(job).status()));
  EXPECT_EQ(controls_->forwards(), before + 1);
}

TEST_F(EngineTest, TheMeasuredPolicyChoosesTheLowestCost) {
  ModelInfo info = FakeModelInfo();
  info.fused_supported = true;
  info.default_policy = Policy::kMeasured;
  info.route_costs = std::make_shared<const RouteCosts>(
      RouteCosts{{{Backend::kPath, {0, 0, 5, 0}}, {Backend::kFused, {0, 0, 1, 0}}}});
  Start({}, info);
  const auto batch = RandomBatch(1, 4, 100);
  const auto result = Run(ScoreAll(batch));
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectScores(*batch, *result);
  EXPECT_EQ(result->route.backend, Backend::kFused);
  EXPECT_EQ(result->route.reason, Reason::kMeasured);
  EXPECT_EQ(result->route.policy, Policy::kMeasured);
  // A backend that the forecast chose and that fails is replaced too.
  controls_->FailBackend(Backend::kFused);
  EXPECT_EQ(Run(ScoreAll(batch))->route.reason, Reason::kBackendFailed);
  ScoreJob job = ScoreAll(batch);
  job.routing.policy = Policy::kReference;
  EXPECT_EQ(Run(job)->route.policy, Policy::kReference);
  EXPECT_EQ(Run(job)->route.reason, Reason::kSmallBatch);
}

TEST_F(EngineTest, TheMeasuredPolicyIsRefusedWithoutCosts) {
  Start();
  ScoreJob job = ScoreAll(RandomBatch(1, 4, 100));
  job.routing.policy = Policy::kMeasured;
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(job).status()));
  EXPECT_EQ(controls_->forwards(), 0);
}

TEST_F(EngineTest, ConfiguredRoutingReplacesOnlyAuto) {
  Engine::Options options;
  options.default_backend = Backend::kSegmented;
  Start(options);
  const auto batch = RandomBatch(2, 20, 100);
  ScoreJob job = ScoreAll(batch);
  EXPECT_EQ(Run(job)->route.backend, Backend::kSegmented);
  job.routing.backend = Backend::kDense;
  EXPECT_EQ(Run(job)->route.backend, Backend::kDense);
  job.routing.backend = Backend::kAuto;
  job.routing.policy = Policy::kReference;
  EXPECT_NE(Run(job)->route.backend, Backend::kSegmented);
  job.routing.max_mask_bytes = 0;
  EXPECT_EQ(Run(job)->route.reason, Reason::kMaskBudget);
}

TEST_F(EngineTest, FusedRunsWhereTheModelSaysSo) {
  ModelInfo info = FakeModelInfo();
  info.fused_supported = true;
  Start({}, info);
  const auto batch = RandomBatch(3, 20, 100);
  ScoreJob job = ScoreAll(batch);
  EXPECT_NE(Run(job)->route.backend, Backend::kFused);
  job.routing.backend = Backend::kFused;
  const absl::StatusOr<ScoreResult> result = Run(job);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectScores(*batch, *result);
  EXPECT_EQ(result->route.backend, Backend::kFused);
  EXPECT_EQ(result->route.layout, Layout::kFlat);
  EXPECT_EQ(result->route.reason, Reason::kRequested);
}

TEST_F(EngineTest, FusedIsRefusedWhereItDoesNotRun) {
  Start();
  ScoreJob job = ScoreAll(RandomBatch(1, 1, 3));
  job.routing.backend = Backend::kFused;
  EXPECT_EQ(Run(job).status().code(), absl::StatusCode::kFailedPrecondition);
  Engine::Options options;
  options.default_backend = Backend::kFused;
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::make_unique<FakeRunner>());
  const absl::Status status = Engine::Create(options, std::move(runners)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'fake'"));
}

TEST_F(EngineTest, UnknownModelsAndWrongOptionsAreNamed) {
  Start();
  ScoreJob job = ScoreAll(RandomBatch(1, 1, 3));
  job.model = "other";
  const absl::Status unknown = Run(job).status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("'other'"));
  EXPECT_TRUE(absl::IsNotFound(engine_->Plan(job).status()));
  EXPECT_EQ(engine_->FindModel("other"), nullptr);
  EXPECT_EQ(engine_->FindModel("")->name, "fake");

  Engine::Options options;
  options.scheduler.max_batch_tokens = 0;
  EXPECT_FALSE(Engine::Create(options, {}).ok());
  EXPECT_FALSE(Engine::Create({}, {}).ok());
  std::vector<std::unique_ptr<ModelRunner>> twins;
  twins.push_back(std::make_unique<FakeRunner>());
  twins.push_back(std::make_unique<FakeRunner>());
  EXPECT_THAT(std::string(Engine::Create({}, std::move(twins)).status().message()),
              HasSubstr("'fake'"));
}

TEST_F(EngineTest, ExplainBuildsTheTrieWhateverTheRoute) {
  Start();
  const absl::StatusOr<RequestPlan> plan = engine_->Plan(ScoreAll(RandomBatch(1, 2, 5)));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->route().reason, Reason::kSmallBatch);
  ASSERT_NE(plan->trie(), nullptr);
  EXPECT_GT(plan->counts().unique_tokens, 0);
  EXPECT_EQ(controls_->forwards(), 0);
}

}  // namespace
}  // namespace canopy
