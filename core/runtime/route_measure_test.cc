// Measures a fake whose clock advances by known costs.
#include "core/runtime/route_measure.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;

const std::map<Backend, BackendCost> kCosts = {{Backend::kPath, {2, 0, 0.010, 1e-6}},
                                               {Backend::kDense, {3, 0, 0.012, 4e-6}},
                                               {Backend::kSegmented, {3, 1, 0.011, 2e-6}},
                                               {Backend::kFused, {1, 0, 0.001, 1e-7}}};

ModelInfo FusedInfo() {
  ModelInfo info = FakeModelInfo();
  info.fused_supported = true;
  return info;
}

// A fake whose forwards take `scale` times kCosts on a clock of their own.
class TimedRunner : public ModelRunner {
 public:
  explicit TimedRunner(const ModelInfo& info = FusedInfo(), double scale = 1)
      : runner_(info, controls_), scale_(scale) {}

  std::shared_ptr<const ModelInfo> info() const override { return runner_.info(); }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    const int64_t rows = plan.grid.rows;
    const int64_t columns = plan.grid.columns;
    RouteLoad load = {1, 0, rows * columns, rows * columns * columns};
    if (plan.backend == Backend::kSegmented) {
      load.pairs = 0;
      for (const SegmentGroup& group : plan.segments->groups) {
        ++load.groups;
        load.pairs += int64_t{group.rows} * group.start_depth * group.query_length +
                      int64_t{group.rows} * group.query_length * (group.query_length + 1) / 2;
      }
    } else if (plan.backend == Backend::kFused) {
      load.pairs = 0;
      for (const int32_t position : plan.grid.position_ids) {
        load.pairs += position + 1;
      }
    }
    now_ms_ += scale_ * ForecastMs(kCosts.at(plan.backend), load);
    tokens_[plan.backend].push_back(load.tokens);
    outputs_.push_back(outputs);
    return runner_.Run(plan, outputs);
  }

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override {
    decisions_.push_back(static_cast<int64_t>(input.finite.size()));
    return runner_.Decide(input);
  }

  RouteMeasureOptions options() {
    RouteMeasureOptions options;
    options.now_ms = [this] { return now_ms_; };
    return options;
  }
  FakeControls& controls() { return *controls_; }
  double now_ms() const { return now_ms_; }
  const std::vector<int64_t>& tokens(Backend backend) { return tokens_[backend]; }
  const std::vector<OutputSelection>& outputs() const { return outputs_; }
  // Returns the number of candidates of each decided question.
  const std::vector<int64_t>& decisions() const { return decisions_; }

 private:
  const std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  FakeRunner runner_;
  const double scale_;
  double now_ms_ = 0;
  std::map<Backend, std::vector<int64_t>> tokens_;
  std::vector<OutputSelection> outputs_;
  std::vector<int64_t> decisions_;
};

TEST(RouteMeasureTest, FindsTheCostsOfEveryBackend) {
  TimedRunner runner;
  const auto costs = MeasureRouteCosts(runner, runner.options());
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->backends.size(), kCosts.size());
  const RouteLoad load = {2, 3, 10'000, 5'000'000};
  for (const auto& [backend, cost] : kCosts) {
    RouteLoad own = load;
    own.groups = backend == Backend::kSegmented ? load.groups : 0;
    EXPECT_NEAR(ForecastMs(costs->backends.at(backend), own) / ForecastMs(cost, own), 1, 0.02)
        << BackendName(backend);
  }
}

TEST(RouteMeasureTest, RunsTheLeastShapesWhateverTheyTakeAndNoMoreThanWasForecast) {
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
    TimedRunner runner(FakeModelInfo(), 1'000);
    RouteMeasureOptions options = runner.options();
    options.budget_ms = 1;
    options.min_shapes = kMinShapes;
    ASSERT_TRUE(MeasureRouteCosts(runner, options).ok());
    const std::vector<int64_t>& tokens = runner.tokens(backend);
    const MeasureWork work = MinMeasureWork(backend);
    EXPECT_EQ(std::set<int64_t>(tokens.begin(), tokens.end()).size(), size_t{kMinShapes});
    EXPECT_LE(static_cast<int64_t>(tokens.size()), work.forwards);
    EXPECT_LE(std::accumulate(tokens.begin(), tokens.end(), int64_t{0}), work.tokens);
  }
}

TEST(RouteMeasureTest, StopsAtTheMostShapes) {
  TimedRunner runner(FakeModelInfo());
  RouteMeasureOptions options = runner.options();
  options.budget_ms = 1e9;
  options.max_shapes = kMinShapes;
  ASSERT_TRUE(MeasureRouteCosts(runner, options).ok());
  const std::vector<int64_t>& tokens = runner.tokens(Backend::kPath);
  EXPECT_EQ(static_cast<int64_t>(tokens.size()), MinMeasureWork(Backend::kPath).forwards);
  EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), int64_t{0}),
            MinMeasureWork(Backend::kPath).tokens);
}

TEST(RouteMeasureTest, StopsGrowingWithinItsBudgetButMeasuresTwoSizes) {
  for (const double scale : {1.0, 30.0, 1'000.0}) {
    TimedRunner runner(FakeModelInfo(), scale);
    RouteMeasureOptions options = runner.options();
    options.budget_ms = 500;
    ASSERT_TRUE(MeasureRouteCosts(runner, options).ok());
    const std::vector<int64_t>& tokens = runner.tokens(Backend::kPath);
    EXPECT_GT(tokens.back(), tokens.front()) << scale;
    if (scale == 1) {
      EXPECT_LT(runner.now_ms(), 3 * 1.5 * options.budget_ms);
    } else if (scale == 1'000) {
      // Each shape runs once to warm up and once timed.
      EXPECT_EQ(tokens.size(), 4U);
    }
  }
}

TEST(RouteMeasureTest, LeavesOutABackendThatFails) {
  TimedRunner runner;
  runner.controls().FailBackend(Backend::kFused);
  const auto costs = MeasureRouteCosts(runner, runner.options());
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->backends.count(Backend::kFused), 0U);
  EXPECT_EQ(costs->backends.size(), 3U);
  EXPECT_TRUE(WarmUpBackends(runner, 16'384, kWarmUpSizes).ok());
  runner.controls().FailBackend(Backend::kPath);
  EXPECT_TRUE(absl::IsFailedPrecondition(MeasureRouteCosts(runner, runner.options()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(WarmUpBackends(runner, 16'384, kWarmUpSizes)));
  EXPECT_TRUE(absl::IsFailedPrecondition(WarmUpHeads(runner, 16'384)));
  runner.controls().FailWith(absl::UnavailableError("lost"));
  EXPECT_TRUE(absl::IsUnavailable(MeasureRouteCosts(runner, runner.options()).status()));
}

TEST(RouteMeasureTest, ASizeThatDoesNotFitEndsTheGrowthOnly) {
  TimedRunner runner;
  runner.controls().LimitSlots(1'000);
  const auto costs = MeasureRouteCosts(runner, runner.options());
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->backends.size(), 4U);
}

TEST(RouteMeasureTest, RunsOnlyWhatTheModelTakes) {
  ModelInfo info = FakeModelInfo();
  info.tree_supported = false;
  info.max_path_tokens = 32;
  info.vocab_size = 5;
  TimedRunner runner(info);
  const auto costs = MeasureRouteCosts(runner, runner.options());
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->backends.size(), 1U);
  EXPECT_EQ(RunnableBackends(info.backend_support()), std::vector<Backend>{Backend::kPath});
}

TEST(RouteMeasureTest, WarmingUpRunsEveryBackendOnTheSmallestSizes) {
  for (const int num_sizes : {1, 2}) {
    TimedRunner runner;
    ASSERT_TRUE(WarmUpBackends(runner, 16'384, num_sizes).ok());
    for (const auto& [backend, cost] : kCosts) {
      const std::vector<int64_t>& tokens = runner.tokens(backend);
      ASSERT_EQ(tokens.size(), static_cast<size_t>(num_sizes)) << BackendName(backend);
      EXPECT_LE(tokens.front(), 64);
      EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
    }
  }
}

TEST(RouteMeasureTest, WarmingUpUsesEveryHeadOnce) {
  ModelInfo info = FakeModelInfo();
  info.has_lm_head = true;
  info.has_value_head = true;
  TimedRunner all(info);
  ASSERT_TRUE(WarmUpHeads(all, 16'384).ok());
  ASSERT_EQ(all.outputs().size(), 3U);
  EXPECT_TRUE(all.outputs()[0].scores);
  EXPECT_TRUE(all.outputs()[1].distributions());
  EXPECT_TRUE(all.outputs()[2].values);
  EXPECT_EQ(all.tokens(Backend::kPath).size(), 3U);
  EXPECT_TRUE(all.decisions().empty());

  info = FakeModelInfo();
  info.score_head = ScoreHead::kDecision;
  info.has_value_head = false;
  TimedRunner decision(info);
  ASSERT_TRUE(WarmUpHeads(decision, 16'384).ok());
  ASSERT_EQ(decision.outputs().size(), 1U);
  EXPECT_TRUE(decision.outputs()[0].endpoints);
  EXPECT_EQ(decision.decisions(), std::vector<int64_t>{2});

  info = FakeModelInfo();
  info.num_labels = 0;
  info.has_value_head = false;
  TimedRunner vectors(info);
  ASSERT_TRUE(WarmUpHeads(vectors, 16'384).ok());
  EXPECT_TRUE(vectors.outputs().empty());
}

}  // namespace
}  // namespace canopy
