// Weights change while jobs wait and run. One version answers each job, and no job is lost.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "gtest/gtest.h"
#include "tests/testing/answer.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;
using testing::FakeScore;

constexpr int64_t kMaxBatchTokens = 64;
constexpr int32_t kPrefixToken = 7;  // the first token of every path

// One submitted job.
struct Call : testing::Answer {
  ScoreJob job;
};

class WeightSwapTest : public ::testing::Test {
 protected:
  WeightSwapTest() {
    Engine::Options options;
    options.scheduler.max_batch_tokens = kMaxBatchTokens;
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<FakeRunner>(Info(1), controls_));
    auto engine = Engine::Create(options, std::move(runners));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  static ModelInfo Info(int64_t version) {
    ModelInfo info = FakeModelInfo();
    info.fused_supported = true;
    info.version = version;
    return info;
  }

  std::weak_ptr<ModelRunner> Replace(int64_t version) {
    std::shared_ptr<ModelRunner> next = std::make_shared<FakeRunner>(Info(version), controls_);
    std::weak_ptr<ModelRunner> watched = next;
    const absl::Status replaced = engine_->ReplaceModel(std::move(next), "");
    EXPECT_TRUE(replaced.ok()) << replaced;
    return watched;
  }

  // Returns a job with `num_paths` paths of 9 tokens, of which 7 fit a forward.
  static ScoreJob Job(Backend backend, int num_paths, uint32_t seed, const std::string& client) {
    std::minstd_rand random(seed);
    auto batch = std::make_shared<PathBatch>();
    std::vector<std::vector<int32_t>> suffixes(static_cast<size_t>(num_paths));
    for (std::vector<int32_t>& suffix : suffixes) {
      suffix.resize(8);
      std::generate(suffix.begin(), suffix.end(),
                    [&random] { return static_cast<int32_t>(random() % 1'000); });
    }
    batch->AddQuestion({kPrefixToken}, suffixes);
    ScoreJob job;
    job.client = client;
    job.batch = std::move(batch);
    job.outputs.scores = true;
    job.routing.backend = backend;
    return job;
  }

  std::unique_ptr<Call> Submit(ScoreJob job) {
    auto call = std::make_unique<Call>();
    call->job = job;
    const absl::Status submitted = engine_->Submit(std::move(job), call->callback());
    EXPECT_TRUE(submitted.ok()) << submitted;
    return call;
  }

  // Returns the version that answered, after checking that it answered everything; 0 = the answer
  // is wrong.
  static int64_t Await(Call* call) {
    if (!call->Await().ok()) {
      ADD_FAILURE() << call->result.status();
      return 0;
    }
    const int64_t version = call->result->model->version;
    const PathBatch& batch = *call->job.batch;
    for (int32_t path = 0; path < batch.num_paths(); ++path) {
      const auto suffix = batch.Tokens(batch.suffixes[path]);
      std::vector<int32_t> tokens = {kPrefixToken};
      tokens.insert(tokens.end(), suffix.begin(), suffix.end());
      if (call->result->scores[static_cast<size_t>(path)] != FakeScore(tokens, 0, version)) {
        ADD_FAILURE() << "path " << path << " is not of version " << version;
        return 0;
      }
    }
    return version;
  }

  const std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  std::unique_ptr<Engine> engine_;
};

TEST_F(WeightSwapTest, AJobInPartsKeepsTheWeightsThatBeganIt) {
  const std::weak_ptr<ModelRunner> second = Replace(2);
  controls_->gate.Close();
  const auto large = Submit(Job(Backend::kPath, 40, 1, "a"));
  controls_->gate.AwaitWaiter();
  Replace(3);
  const auto later = Submit(Job(Backend::kPath, 3, 2, "b"));
  EXPECT_FALSE(second.expired());
  controls_->gate.Open();
  EXPECT_EQ(Await(large.get()), 2);
  EXPECT_GT(large->result->parts, 2);
  EXPECT_EQ(Await(later.get()), 3);
  engine_->Drain();
  EXPECT_TRUE(second.expired());
}

TEST_F(WeightSwapTest, WaitingJobsUseTheNewWeights) {
  controls_->gate.Close();
  const auto running = Submit(Job(Backend::kPath, 3, 1, "a"));
  controls_->gate.AwaitWaiter();
  const auto next = Submit(Job(Backend::kPath, 3, 2, "a"));  // may be planned already
  const auto waiting = Submit(Job(Backend::kPath, 3, 3, "a"));
  Replace(2);
  EXPECT_EQ(engine_->FindModel("")->version, 2);
  EXPECT_EQ(engine_->models().front()->version, 2);
  controls_->gate.Open();
  EXPECT_EQ(Await(running.get()), 1);
  EXPECT_GT(Await(next.get()), 0);
  EXPECT_EQ(Await(waiting.get()), 2);
}

TEST_F(WeightSwapTest, AJobThatRunsAgainKeepsItsWeights) {
  controls_->gate.Close();
  const auto call = Submit(Job(Backend::kDense, 3, 1, "a"));
  controls_->gate.AwaitWaiter();
  controls_->LimitSlots(12);  // the forest does not fit and runs again in parts
  Replace(2);
  controls_->gate.Open();
  EXPECT_EQ(Await(call.get()), 1);
  EXPECT_GT(call->result->parts, 1);
}

TEST_F(WeightSwapTest, OthersThanTheLoadedModelsAreRefused) {
  ModelInfo info = Info(2);
  info.name = "nobody";
  EXPECT_TRUE(absl::IsNotFound(engine_->ReplaceModel(std::make_shared<FakeRunner>(info), "")));
  info.name = "fake";
  info.vocab_size = 5;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(engine_->ReplaceModel(std::make_shared<FakeRunner>(info), "")));
  EXPECT_EQ(engine_->FindModel("fake")->version, 1);
}

// Threads each send jobs one after the other, which share forwards, run alone or run in parts,
// while versions change as fast as possible.
TEST_F(WeightSwapTest, UnderLoadEveryAnswerIsOfOneVersionAndNoneIsLost) {
  constexpr int kThreads = 4;
  constexpr int kJobsAThread = 150;
  std::atomic<int> working{kThreads};
  std::vector<std::thread> threads;
  std::atomic<int64_t> changes{0};
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      int64_t seen = 1;
      for (int i = 0; i < kJobsAThread; ++i) {
        const Backend backend = i % 3 == 0 ? Backend::kPath : Backend::kFused;
        const auto call =
            Submit(Job(backend, 1 + i % 20, static_cast<uint32_t>(thread * kJobsAThread + i + 1),
                       std::to_string(thread)));
        const int64_t version = Await(call.get());
        EXPECT_GE(version, seen);
        changes += version > seen ? 1 : 0;
        seen = std::max(seen, version);
      }
      working.fetch_sub(1);
    });
  }
  int64_t version = 1;
  std::vector<std::weak_ptr<ModelRunner>> replaced;
  while (working.load() > 0) {
    const absl::Status worked = engine_->RunOnDevice([] { return absl::OkStatus(); });
    EXPECT_TRUE(worked.ok()) << worked;
    replaced.push_back(Replace(++version));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(changes.load(), 0);
  engine_->Drain();
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.accepted, kThreads * kJobsAThread);
  EXPECT_EQ(stats.answered, kThreads * kJobsAThread);
  replaced.pop_back();
  EXPECT_TRUE(std::all_of(replaced.begin(), replaced.end(),
                          [](const auto& runner) { return runner.expired(); }));
}

TEST_F(WeightSwapTest, WorkForTheDeviceRunsBetweenForwards) {
  controls_->gate.Close();
  const auto running = Submit(Job(Backend::kPath, 3, 1, "a"));
  controls_->gate.AwaitWaiter();
  std::atomic<bool> worked{false};
  absl::Status status;
  std::thread worker([&] {
    status = engine_->RunOnDevice([&] {
      worked = true;
      return absl::ResourceExhaustedError("as it says");
    });
  });
  EXPECT_FALSE(worked.load());
  const auto waiting = Submit(Job(Backend::kPath, 3, 2, "a"));
  controls_->gate.Open();
  worker.join();
  EXPECT_TRUE(worked.load());
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(Await(running.get()), 1);
  EXPECT_EQ(Await(waiting.get()), 1);
  EXPECT_TRUE(engine_->healthy());
}

TEST_F(WeightSwapTest, ADrainingEngineTakesNoWorkForTheDevice) {
  engine_->Drain();
  EXPECT_TRUE(absl::IsUnavailable(engine_->RunOnDevice([] {
    ADD_FAILURE() << "ran";
    return absl::OkStatus();
  })));
}

TEST_F(WeightSwapTest, WorkThatLosesTheDeviceEndsEverything) {
  EXPECT_FALSE(engine_->RunOnDevice([] { return absl::UnavailableError("lost"); }).ok());
  EXPECT_FALSE(engine_->healthy());
}

}  // namespace
}  // namespace canopy
