// Jobs that run together, and jobs that run between the parts of a large job. Runs an engine with a
// fake device whose forwards the test admits one by one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_details.h"
#include "core/engine/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/batch_call.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;

using Call = testing::BatchCall;

constexpr int32_t kPoison = 950;

class BatchingTest : public ::testing::Test {
 protected:
  void Start(Engine::Options options = {}) {
    options.on_forward = [this](const ForwardRecord& forward) {
      MutexLock lock(&mutex_);
      forwards_.push_back(forward);
    };
    ModelInfo info = FakeModelInfo();
    info.fused_supported = true;
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<FakeRunner>(info, controls_));
    auto engine = Engine::Create(options, std::move(runners));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // Returns questions that begin with `state`.
  std::shared_ptr<const PathBatch> Batch(const std::vector<int32_t>& state, int num_questions = 2,
                                         int num_candidates = 3) {
    auto batch = std::make_shared<PathBatch>();
    for (int question = 0; question < num_questions; ++question) {
      std::vector<std::vector<int32_t>> suffixes;
      suffixes.reserve(static_cast<size_t>(num_candidates));
      for (int candidate = 0; candidate < num_candidates; ++candidate) {
        suffixes.push_back({Token(), Token(), Token()});
      }
      std::vector<int32_t> prefix = state;
      prefix.push_back(Token());
      batch->AddQuestion(prefix, suffixes);
    }
    return batch;
  }

  int32_t Token() { return static_cast<int32_t>(random_() % 900); }

  std::vector<int32_t> State(int size) {
    std::vector<int32_t> state(static_cast<size_t>(size));
    std::generate(state.begin(), state.end(), [this] { return Token(); });
    return state;
  }

  static ScoreJob Fused(std::shared_ptr<const PathBatch> batch, const std::string& client = "a") {
    ScoreJob job;
    job.batch = std::move(batch);
    job.client = client;
    job.outputs.scores = true;
    job.routing.backend = Backend::kFused;
    return job;
  }

  std::unique_ptr<Call> Submit(ScoreJob job) {
    auto call = std::make_unique<Call>();
    call->batch = job.batch;
    job.id = call->id = engine_->NewJobId();
    const absl::Status submitted = engine_->Submit(std::move(job), call->callback());
    EXPECT_TRUE(submitted.ok()) << submitted;
    return call;
  }

  // Closes the gate with a forward in it, so that jobs that are submitted afterwards wait.
  std::unique_ptr<Call> Occupy() {
    controls_->gate.Close();
    ScoreJob job = Fused(Batch({}, 1, 1));
    job.routing.backend = Backend::kPath;
    std::unique_ptr<Call> call = Submit(std::move(job));
    controls_->gate.AwaitWaiter();
    return call;
  }

  // Returns the number of requests of each forward after the first.
  std::vector<int64_t> LaterForwards() {
    MutexLock lock(&mutex_);
    std::vector<int64_t> requests;
    for (size_t i = 1; i < forwards_.size(); ++i) {
      requests.push_back(forwards_[i].requests);
    }
    return requests;
  }

  int64_t ComputedTokens(size_t forward) {
    MutexLock lock(&mutex_);
    return forwards_[forward].computed_tokens;
  }

  std::mt19937 random_{20'261'130};
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  Mutex mutex_;
  std::vector<ForwardRecord> forwards_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Engine> engine_;
};

TEST_F(BatchingTest, WaitingFusedJobsShareOneForwardAndTheirPrefixes) {
  Start();
  const std::vector<int32_t> state = State(40);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(10);
  for (int i = 0; i < 10; ++i) {
    calls.push_back(Submit(Fused(Batch(i % 2 == 0 ? state : State(20)), std::to_string(i))));
  }
  controls_->gate.Open();
  int64_t computed = 0;
  int64_t unique = 0;
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
    const ScoreResult& result = *call->result;
    EXPECT_EQ(result.batch_requests, 10);
    EXPECT_EQ(result.parts, 1);
    EXPECT_EQ(result.route.backend, Backend::kFused);
    EXPECT_EQ(result.route.layout, Layout::kFlat);
    EXPECT_EQ(result.counts.input_tokens, result.counts.path_tokens)
        << "all paths are equally long";
    EXPECT_EQ(result.counts.forest_tokens, calls[0]->result->counts.forest_tokens);
    EXPECT_EQ(result.times.plan_ms, calls[0]->result->times.plan_ms);
    EXPECT_EQ(result.times.device_ms, calls[0]->result->times.device_ms);
    EXPECT_GT(result.times.queue_ms, 0);
    computed += result.computed_tokens;
    unique += result.counts.unique_tokens;
  }
  engine_->Drain();
  EXPECT_THAT(LaterForwards(), ElementsAre(10));
  EXPECT_EQ(computed, ComputedTokens(1)) << "shares add up";
  // The ten questions (two in each of five jobs) share a state of 40 tokens, computed only once.
  EXPECT_LE(computed, unique - 9 * 40);
  EXPECT_GE(calls[0]->result->computed_tokens, 40 + calls[2]->result->computed_tokens);
}

TEST_F(BatchingTest, OnlyJobsThatMayShareRunTogether) {
  Start();
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  for (const Backend backend :
       {Backend::kAuto, Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    for (int i = 0; i < 2; ++i) {
      ScoreJob job = Fused(Batch(State(20)));
      job.routing.backend = backend;
      calls.push_back(Submit(std::move(job)));
    }
  }
  ScoreJob other = Fused(Batch(State(5)));
  other.outputs.vectors = true;
  calls.push_back(Submit(std::move(other)));
  other = Fused(Batch(State(5)));
  other.tenant = "other";
  calls.push_back(Submit(std::move(other)));
  other = Fused(Batch(State(5)));
  calls.push_back(Submit(std::move(other)));
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
    EXPECT_EQ(call->result->batch_requests, 1);
  }
}

TEST_F(BatchingTest, TenantsShareWhereTheServerSaysSo) {
  Engine::Options options;
  options.share_across_tenants = true;
  Start(options);
  const auto first = Occupy();
  ScoreJob other = Fused(Batch(State(5)));
  other.tenant = "other";
  const auto a = Submit(std::move(other));
  const auto b = Submit(Fused(Batch(State(5))));
  controls_->gate.Open();
  ExpectFakeScores(a.get(), kPoison);
  EXPECT_EQ(a->result->batch_requests, 2);
  ExpectFakeScores(b.get(), kPoison);
}

TEST_F(BatchingTest, TheTokenBudgetBoundsASharedForward) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 100;
  Start(options);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(7);
  for (int i = 0; i < 7; ++i) {
    calls.push_back(Submit(Fused(Batch(State(10)))));  // 40 tokens as sent
  }
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  engine_->Drain();
  EXPECT_THAT(LaterForwards(), ElementsAre(2, 2, 2, 1));
}

TEST_F(BatchingTest, ANonFiniteJobSpoilsNoNeighbour) {
  Start();
  controls_->PoisonToken(kPoison);
  const auto first = Occupy();
  const auto good = Submit(Fused(Batch(State(10))));
  PathBatch poisoned = *Batch(State(10));
  poisoned.tokens[static_cast<size_t>(poisoned.suffixes[4].begin)] = kPoison;
  const auto bad = Submit(Fused(std::make_shared<const PathBatch>(poisoned)));
  controls_->gate.Open();
  ExpectFakeScores(good.get(), kPoison);
  ExpectFakeScores(bad.get(), kPoison);
  EXPECT_EQ(std::count(good->result->finite.begin(), good->result->finite.end(), 0), 0);
  EXPECT_EQ(std::count(bad->result->finite.begin(), bad->result->finite.end(), 0), 1);
  EXPECT_EQ(bad->result->route.reason, Reason::kNonFiniteRerun);
}

TEST_F(BatchingTest, JobsThatAreTooLargeTogetherRunAlone) {
  Start();
  controls_->LimitSlots(60);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(4);
  for (int i = 0; i < 4; ++i) {
    calls.push_back(Submit(Fused(Batch(State(15)))));
  }
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  engine_->Drain();
  EXPECT_THAT(LaterForwards(), ElementsAre(4, 1, 1, 1, 1));
}

// Wherever memory runs out, and for however long, each answer is right, each job is answered once,
// and a job fails only if not even one path of it could run.
TEST_F(BatchingTest, RunningOutOfMemoryAtAnyForwardLosesAndDuplicatesNoJob) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 128;
  Start(options);
  const std::vector<int32_t> state = State(20);
  for (int64_t first = 0; first < 24; ++first) {
    for (const int64_t count : {1, 2, 3, 6, 60}) {
      SCOPED_TRACE(absl::StrCat(count, " without memory after ", first));
      const auto occupant = Occupy();
      controls_->FailForwards(1 + first, count);  // the occupant's own forward succeeds
      std::vector<std::unique_ptr<Call>> calls;
      calls.reserve(8);
      for (int i = 0; i < 5; ++i) {
        calls.push_back(Submit(Fused(Batch(state, 1, 1 + i), std::to_string(i % 3))));
      }
      calls.push_back(Submit(Fused(Batch(state, 6, 4), "large")));
      for (const Backend backend : {Backend::kDense, Backend::kPath}) {
        ScoreJob job = Fused(Batch(state, 6, 4), "alone");
        job.routing.backend = backend;
        calls.push_back(Submit(std::move(job)));
      }
      controls_->gate.Open();
      for (size_t i = 0; i < calls.size(); ++i) {
        const absl::StatusOr<ScoreResult>& result = calls[i]->Await();
        if (result.ok()) {
          ExpectFakeScores(calls[i].get(), kPoison);
          continue;
        }
        EXPECT_EQ(ErrorReasonName(result.status()), "PATH_TOO_LARGE_FOR_DEVICE") << result.status();
        EXPECT_TRUE(count > 1 || calls[i]->batch->num_paths() == 1) << "job " << i;
      }
      ExpectFakeScores(occupant.get(), kPoison);
      controls_->FailForwards(0, 0);
      const auto next = Submit(Fused(Batch(state)));
      ExpectFakeScores(next.get(), kPoison);
    }
  }
  engine_->Drain();
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.accepted, 24 * 5 * 10);
  EXPECT_EQ(stats.answered, stats.accepted);
  EXPECT_EQ(stats.queued_normal + stats.queued_low + stats.queued_tokens, 0);
}

TEST_F(BatchingTest, ACancelledJobLeavesASharedForwardBeforeItsLaunch) {
  Start();
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(6);
  for (int i = 0; i < 6; ++i) {
    calls.push_back(Submit(Fused(Batch(State(10)))));
  }
  engine_->Cancel(calls[1]->id);
  EXPECT_TRUE(absl::IsCancelled(calls[1]->Await().status()));
  engine_->Cancel(calls[4]->id);
  EXPECT_TRUE(absl::IsCancelled(calls[4]->Await().status()));
  controls_->gate.Open();
  for (const int i : {0, 2, 3, 5}) {
    ExpectFakeScores(calls[i].get(), kPoison);
    EXPECT_EQ(calls[i]->result->batch_requests, 4);
  }
  EXPECT_EQ(engine_->stats().cancelled, 2);
  EXPECT_EQ(engine_->stats().wasted_device_seconds, 0);
}

TEST_F(BatchingTest, ASmallJobWaitsForOnePartOfALargeOneAtMost) {
  for (const Backend backend : {Backend::kDense, Backend::kFused}) {
    SCOPED_TRACE(BackendName(backend));
    Engine::Options options;
    options.scheduler.max_batch_tokens = 64;
    Start(options);
    {
      MutexLock lock(&mutex_);
      forwards_.clear();
    }
    controls_->gate.Close();
    ScoreJob job = Fused(Batch(State(20), 10, 12), "large");
    job.routing.backend = backend;
    const auto large = Submit(std::move(job));
    controls_->gate.AwaitWaiter();
    controls_->gate.AdmitOne();
    controls_->gate.AwaitWaiter();  // the second part runs; the third is planned now or will be
    for (const char* client : {"large", "other"}) {
      const int64_t before = controls_->forwards();
      job = Fused(Batch({}, 1, 1), client);
      job.routing.backend = Backend::kPath;
      const auto small = Submit(std::move(job));
      while (!small->answered.HasBeenNotified()) {
        controls_->gate.AdmitOne();
        controls_->gate.AwaitWaiter();
      }
      ExpectFakeScores(small.get(), kPoison);
      EXPECT_LE(controls_->forwards() - before, 2) << client << ": the part that ran, and the job";
      EXPECT_FALSE(large->answered.HasBeenNotified());
    }
    controls_->gate.Open();
    ExpectFakeScores(large.get(), kPoison);
    EXPECT_GE(large->result->parts, 10);
    engine_ = nullptr;
  }
}

TEST_F(BatchingTest, DeviceTimeOfAJobThatNobodyWaitsForIsCounted) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 64;
  Start(options);
  controls_->gate.Close();
  const auto large = Submit(Fused(Batch(State(20), 10, 12), "large"));
  controls_->gate.AwaitWaiter();
  controls_->gate.AdmitOne();
  controls_->gate.AwaitWaiter();
  engine_->Cancel(large->id);
  EXPECT_TRUE(absl::IsCancelled(large->Await().status()));
  controls_->gate.Open();
  engine_->Drain();
  EXPECT_EQ(controls_->forwards(), 2) << "no further part was launched";
  const EngineStats stats = engine_->stats();
  EXPECT_GT(stats.wasted_device_seconds, 0);
  EXPECT_DOUBLE_EQ(stats.wasted_device_seconds, stats.device_seconds);
}

TEST_F(BatchingTest, ADeadlineBetweenPartsEndsTheJobAndLaunchesNoFurtherPart) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 64;
  Start(options);
  controls_->gate.Close();
  ScoreJob job = Fused(Batch(State(20), 10, 12), "large");
  job.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  const auto large = Submit(std::move(job));
  controls_->gate.AwaitWaiter();
  controls_->gate.AdmitOne();
  controls_->gate.AwaitWaiter();
  // The second part is on the device; the third is planned or will be.
  EXPECT_TRUE(absl::IsDeadlineExceeded(large->Await().status())) << large->result.status();
  controls_->gate.Open();
  engine_->Drain();
  EXPECT_EQ(controls_->forwards(), 2);
  EXPECT_EQ(engine_->stats().expired, 1);
}

// All waiting jobs leave the queue at once, however they end.
TEST_F(BatchingTest, TenThousandThatNobodyWaitsForAreNeverLaunched) {
  constexpr int kJobs = 10'000;
  Engine::Options options;
  options.scheduler.max_queued_requests = kJobs + 1;
  Start(options);
  const auto occupant = Occupy();
  const auto batch = Batch(State(5), 1, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(kJobs);
  for (int i = 0; i < kJobs; ++i) {
    ScoreJob job = Fused(batch, std::to_string(i % 7));
    if (i % 2 == 0) {
      job.deadline = deadline;
    }
    if (i % 3 == 0) {
      job.routing.backend = Backend::kPath;
    }
    calls.push_back(std::make_unique<Call>());
    Call* call = calls.back().get();
    job.id = call->id = engine_->NewJobId();
    // A slow machine may submit after the deadline.
    const absl::Status submitted = engine_->Submit(std::move(job), call->callback());
    if (!submitted.ok()) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(submitted)) << submitted;
      call->callback()(submitted);
    }
  }
  std::vector<JobId> without_deadline;
  for (int i = 1; i < kJobs; i += 2) {
    without_deadline.push_back(calls[i]->id);
  }
  std::shuffle(without_deadline.begin(), without_deadline.end(), random_);
  for (const JobId id : without_deadline) {
    engine_->Cancel(id);
  }
  for (const auto& call : calls) {
    EXPECT_FALSE(call->Await().ok());
  }
  EXPECT_EQ(engine_->stats().cancelled, kJobs / 2);
  EXPECT_EQ(engine_->stats().queued_normal, 0);
  EXPECT_EQ(engine_->stats().queued_tokens, 0);
  controls_->gate.Open();
  ExpectFakeScores(occupant.get(), kPoison);
  engine_->Drain();
  EXPECT_EQ(controls_->forwards(), 1);
  EXPECT_EQ(engine_->stats().wasted_device_seconds, 0);
}

TEST_F(BatchingTest, ManyThreadsCancelsAndDeadlinesEndEachJobOnce) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 256;
  options.scheduler.max_queued_requests = 64;
  Start(options);
  constexpr int kThreads = 4;
  constexpr int kJobs = 2'500;
  std::atomic<int> answers{0};
  std::atomic<int> accepted{0};
  std::vector<std::shared_ptr<const PathBatch>> batches;
  batches.reserve(20);
  for (int i = 0; i < 20; ++i) {
    batches.push_back(Batch(State(i % 5 * 20), 1 + i % 4, 1 + i % 9));
  }
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<uint32_t>(thread));
      for (int i = 0; i < kJobs; ++i) {
        ScoreJob job = Fused(batches[random() % batches.size()], std::to_string(random() % 3));
        job.routing.backend = random() % 3 == 0 ? Backend::kAuto : Backend::kFused;
        job.priority = random() % 4 == 0 ? Priority::kLow : Priority::kNormal;
        if (random() % 3 == 0) {
          job.deadline =
              std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 2'000);
        }
        const JobId id = job.id = engine_->NewJobId();
        if (engine_->Submit(std::move(job), [&](const auto&) { ++answers; }).ok()) {
          ++accepted;
          if (random() % 2 == 0) {
            engine_->Cancel(id);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  engine_->Drain();
  EXPECT_EQ(answers, accepted);
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.accepted, accepted);
  EXPECT_EQ(stats.accepted, stats.answered + stats.displaced + stats.expired + stats.cancelled);
  EXPECT_EQ(stats.queued_normal + stats.queued_low + stats.queued_tokens, 0);
}

}  // namespace
}  // namespace canopy
