// Jobs that share a forward because of the costs, without the fused backend. Runs an engine with a
// fake device whose forwards the test admits.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "core/engine/engine.h"
#include "core/tree/route_costs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/batch_call.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;

using Call = testing::BatchCall;

constexpr int32_t kPoison = 950;

// A forward costs as much as 20 tokens on dense, and as 40 tokens on segmented, with its groups.
const RouteCosts kCosts = {{{Backend::kPath, {20, 0, 1, 1e-3}},
                            {Backend::kDense, {20, 0, 1, 1e-3}},
                            {Backend::kSegmented, {20, 10, 1, 1e-3}}}};
// A forward has no cost of its own.
const RouteCosts kCostsByToken = {
    {{Backend::kPath, {0, 0, 1, 0}}, {Backend::kDense, {0, 0, 1, 0}}}};

class CostSharingTest : public ::testing::Test {
 protected:
  void Start(RouteCosts costs, Engine::Options options = {}) {
    options.on_forward = [this](const ForwardRecord& forward) {
      MutexLock lock(&mutex_);
      forwards_.push_back(forward);
    };
    ModelInfo info = FakeModelInfo();
    info.default_policy = Policy::kMeasured;
    info.route_costs = std::make_shared<const RouteCosts>(std::move(costs));
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<FakeRunner>(info, controls_));
    auto engine = Engine::Create(options, std::move(runners));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::vector<int32_t> Tokens(int size) {
    std::vector<int32_t> tokens(static_cast<size_t>(size));
    std::generate(tokens.begin(), tokens.end(),
                  [this] { return static_cast<int32_t>(random_() % 900); });
    return tokens;
  }

  // Returns one question with three candidates of 4 tokens.
  std::shared_ptr<const PathBatch> Batch(const std::vector<int32_t>& prefix) {
    auto batch = std::make_shared<PathBatch>();
    batch->AddQuestion(prefix, {Tokens(4), Tokens(4), Tokens(4)});
    return batch;
  }

  // Returns `state` followed by a question of 6 tokens.
  std::shared_ptr<const PathBatch> About(std::vector<int32_t> state) {
    for (const int32_t token : Tokens(6)) {
      state.push_back(token);
    }
    return Batch(state);
  }

  std::unique_ptr<Call> Submit(std::shared_ptr<const PathBatch> batch, RouteRequest routing = {},
                               const std::string& tenant = "") {
    auto call = std::make_unique<Call>();
    call->batch = batch;
    call->id = engine_->NewJobId();
    ScoreJob job;
    job.id = call->id;
    job.batch = std::move(batch);
    job.outputs.scores = true;
    job.routing = routing;
    job.tenant = tenant;
    const absl::Status submitted = engine_->Submit(std::move(job), call->callback());
    EXPECT_TRUE(submitted.ok()) << submitted;
    return call;
  }

  // Closes the gate with a forward in it, so that jobs that are submitted afterwards wait.
  std::unique_ptr<Call> Occupy() {
    controls_->gate.Close();
    RouteRequest routing;
    routing.backend = Backend::kPath;
    std::unique_ptr<Call> call = Submit(Batch(Tokens(1)), routing);
    controls_->gate.AwaitWaiter();
    return call;
  }

  // Makes `count` requests that share nothing, each with a prefix of its own, wait for the device
  // at the same time.
  std::vector<std::unique_ptr<Call>> RunTogether(int count, int prefix_tokens) {
    const auto first = Occupy();
    std::vector<std::unique_ptr<Call>> calls;
    calls.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      calls.push_back(Submit(Batch(Tokens(prefix_tokens))));
    }
    controls_->gate.Open();
    first->Await();
    return calls;
  }

  // Returns the number of requests of each forward after the first.
  std::vector<int64_t> LaterForwards() {
    engine_->Drain();
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

TEST_F(CostSharingTest, RequestsAboutOneStateComputeItOnce) {
  Start(kCosts);
  const std::vector<int32_t> state = Tokens(40);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(8);
  for (int i = 0; i < 8; ++i) {
    calls.push_back(Submit(About(state)));
  }
  controls_->gate.Open();
  int64_t computed = 0;
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
    const ScoreResult& result = *call->result;
    EXPECT_EQ(result.batch_requests, 8);
    EXPECT_EQ(result.parts, 1);
    EXPECT_EQ(result.route.policy, Policy::kMeasured);
    EXPECT_EQ(result.route.reason, Reason::kMeasured);
    EXPECT_EQ(result.route.layout, Layout::kFlat);
    // The counts of the forward.
    EXPECT_EQ(result.counts.forest_tokens, 40 + 8 * 18);
    EXPECT_EQ(result.counts.mask_bytes, 184 * 184 * 4);
    EXPECT_EQ(result.counts.segment_groups, 3);
    EXPECT_EQ(result.times.device_ms, calls[0]->result->times.device_ms);
    // The counts of the request.
    EXPECT_EQ(result.counts.unique_tokens, 58);
    EXPECT_EQ(result.counts.path_tokens, 150);
    EXPECT_EQ(result.counts.input_tokens, 150);
    EXPECT_EQ(result.computed_tokens, call == calls[0] ? 58 : 18);
    computed += result.computed_tokens;
  }
  EXPECT_THAT(LaterForwards(), ElementsAre(8));
  EXPECT_EQ(computed, ComputedTokens(1)) << "shares add up";
}

TEST_F(CostSharingTest, ARequestThatRunsAloneIsRoutedAsUsual) {
  Start(kCosts);
  const auto call = Submit(Batch(Tokens(40)));
  ExpectFakeScores(call.get(), kPoison);
  EXPECT_EQ(call->result->batch_requests, 1);
  EXPECT_EQ(call->result->route.layout, Layout::kPadded);
  EXPECT_EQ(call->result->computed_tokens, 52);
}

TEST_F(CostSharingTest, OnlyAutoOfOneTenantUnderTheMeasuredPolicyShares) {
  Start(kCosts);
  const auto state = Tokens(40);
  RouteRequest reference;
  reference.policy = Policy::kReference;
  RouteRequest dense;
  dense.backend = Backend::kDense;
  RouteRequest no_mask;
  no_mask.max_mask_bytes = 0;
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  for (const RouteRequest& routing : {reference, dense, no_mask}) {
    calls.push_back(Submit(About(state), routing));
    calls.push_back(Submit(About(state), routing));
  }
  calls.push_back(Submit(About(state), {}, "one"));
  calls.push_back(Submit(About(state), {}, "other"));
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  EXPECT_THAT(LaterForwards(), Each(1));
}

TEST_F(CostSharingTest, RequestsWhoseSharingDoesNotPayRunOneByOne) {
  Start(kCostsByToken);
  const auto calls = RunTogether(5, 30);
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  EXPECT_THAT(LaterForwards(), ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(CostSharingTest, SharingMayPayBecauseOfTheCostOfAForward) {
  // Two requests pay off together as well as five, so a planned forward grows while others still
  // arrive.
  RouteCosts costs = kCosts;
  for (auto& [backend, cost] : costs.backends) {
    cost.forward_ms = 100;
  }
  Start(costs);
  const auto calls = RunTogether(5, 30);
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
    EXPECT_EQ(call->result->computed_tokens, 42);
  }
  EXPECT_THAT(LaterForwards(), ElementsAre(5));
}

// Eight requests together have 298 tokens as sent and 158 in a flat layout. A padded layout exceeds
// the token budget.
TEST_F(CostSharingTest, RequestsThatExceedAForwardAreHalvedUntilTheyFit) {
  RouteCosts costs = kCosts;
  costs.backends[Backend::kSegmented] = {9999, 10, 1, 1e-3};
  Engine::Options options;
  options.scheduler.max_batch_tokens = 300;
  options.max_mask_bytes = 160 * 160 * 4;
  Start(costs, options);
  const auto state = Tokens(20);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(8);
  for (int i = 0; i < 8; ++i) {
    calls.push_back(Submit(i == 3 ? Batch(state) : About(state)));
  }
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  // 20 + 7 x 18 + 12 slots.
  EXPECT_THAT(LaterForwards(), ElementsAre(8));

  options.max_mask_bytes = 157 * 157 * 4;
  {
    MutexLock lock(&mutex_);
    forwards_.clear();
  }
  Start(costs, options);
  const auto second = Occupy();
  for (auto& call : calls) {
    call = Submit(call->batch);
  }
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  EXPECT_THAT(LaterForwards(), ElementsAre(4, 4));
}

// Without costs all forecasts are infinite, so the forecast alone would not rule out a forward that
// exceeds the budget.
TEST_F(CostSharingTest, WithoutCostsNoForwardExceedsItsBudget) {
  Engine::Options options;
  options.scheduler.max_batch_tokens = 300;
  Start(RouteCosts(), options);
  const auto calls = RunTogether(5, 40);  // each has 52 tokens as sent, and 132 by path
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  LaterForwards();
  MutexLock lock(&mutex_);
  for (const ForwardRecord& forward : forwards_) {
    EXPECT_LE(forward.computed_tokens, 300);
  }
}

TEST_F(CostSharingTest, APoisonedNeighbourHarmsNobody) {
  Start(kCosts);
  controls_->PoisonToken(kPoison);
  const auto state = Tokens(40);
  const auto first = Occupy();
  const auto good = Submit(About(state));
  PathBatch poisoned = *About(state);
  poisoned.tokens[static_cast<size_t>(poisoned.suffixes[1].begin)] = kPoison;
  const auto bad = Submit(std::make_shared<const PathBatch>(poisoned));
  controls_->gate.Open();
  ExpectFakeScores(good.get(), kPoison);
  ExpectFakeScores(bad.get(), kPoison);
  for (Call* call : {good.get(), bad.get()}) {
    EXPECT_EQ(call->result->batch_requests, 2);
    EXPECT_EQ(call->result->route.reason, Reason::kNonFiniteRerun) << "one row holds them both";
  }
  EXPECT_EQ(std::count(bad->result->finite.begin(), bad->result->finite.end(), 0), 1);
}

TEST_F(CostSharingTest, WithoutMemoryForAllTheyRunAlone) {
  Start(kCosts);
  controls_->LimitSlots(60);
  const auto state = Tokens(40);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  calls.reserve(4);
  for (int i = 0; i < 4; ++i) {
    calls.push_back(Submit(About(state)));
  }
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  EXPECT_THAT(LaterForwards(), ElementsAre(4, 1, 1, 1, 1));
}

// A limit that was learned from one forward may be shorter than a path of a later request. That
// request runs alone, and the others still share their forward.
TEST_F(CostSharingTest, APathLongerThanTheLearnedLimitHarmsNobody) {
  RouteCosts costs = kCosts;
  for (auto& [backend, cost] : costs.backends) {
    cost.forward_ms = 100;
  }
  Start(costs);
  controls_->FailForwards(0, 1);
  const auto failed = Submit(Batch(Tokens(100)));  // 112 tokens, so that the limit is 56
  ExpectFakeScores(failed.get(), kPoison);
  const auto first = Occupy();
  std::vector<std::unique_ptr<Call>> calls;
  for (const int prefix_tokens : {10, 10, 80, 10, 10}) {
    calls.push_back(Submit(Batch(Tokens(prefix_tokens))));
  }
  controls_->gate.Open();
  for (const auto& call : calls) {
    ExpectFakeScores(call.get(), kPoison);
  }
  EXPECT_EQ(calls[0]->result->batch_requests, 2);
  EXPECT_EQ(calls[1]->result->batch_requests, 2);
  EXPECT_EQ(calls[2]->result->batch_requests, 1);
}

// Jobs arrive and leave at random, also while a batch is planned with fewer jobs than were taken.
TEST_F(CostSharingTest, RandomLoadsLoseAndDuplicateNoJob) {
  RouteCosts costs = kCosts;
  costs.backends[Backend::kSegmented].forward_ms = 200;
  Engine::Options options;
  options.scheduler.max_batch_tokens = 300;
  options.max_mask_bytes = 120 * 120 * 4;
  Start(costs, options);
  const std::vector<int32_t> states[] = {Tokens(20), Tokens(35), Tokens(50)};
  for (int round = 0; round < 60; ++round) {
    std::vector<std::unique_ptr<Call>> calls;
    calls.reserve(40);
    const bool holds = round % 2 == 0;
    const auto occupant = holds ? Occupy() : nullptr;
    for (int i = 0; i < 40; ++i) {
      const auto kind = random_() % 8;
      calls.push_back(Submit(kind == 0   ? Batch(Tokens(1 + static_cast<int>(random_() % 200)))
                             : kind == 1 ? Batch(states[random_() % 3])
                                         : About(states[random_() % 3])));
      if (random_() % 6 == 0) {
        engine_->Cancel(calls[random_() % calls.size()]->id);
      }
    }
    controls_->gate.Open();
    for (const auto& call : calls) {
      if (!absl::IsCancelled(call->Await().status())) {
        ExpectFakeScores(call.get(), kPoison);
      }
    }
  }
  engine_->Drain();
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.accepted, 60 * 40 + 30);
  EXPECT_EQ(stats.answered + stats.cancelled, stats.accepted);
  EXPECT_LT(stats.forwards, stats.answered * 3 / 4) << "hardly anybody shared";
}

}  // namespace
}  // namespace canopy
