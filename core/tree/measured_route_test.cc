// Compares the load of a plan with a count over its arrays, and the forecast of the chosen backend
// with the forecasts of the others.
#include "core/tree/measured_route.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "core/tree/tree_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;

constexpr int kNumRandomBatches = 300;
constexpr int64_t kNoLimit = int64_t{1} << 40;

RouteOptions Named(Backend backend) {
  RouteOptions options;
  options.backend = backend;
  options.max_mask_bytes = kNoLimit;
  options.fused_supported = true;
  options.share_questions = false;
  return options;
}

RouteOptions Measured(RouteCosts costs) {
  RouteOptions options = Named(Backend::kAuto);
  options.policy = Policy::kMeasured;
  options.costs = std::make_shared<const RouteCosts>(std::move(costs));
  return options;
}

// Each backend costs the given number of milliseconds per token.
RouteCosts CostsByToken(double path, double dense, double segmented, double fused) {
  return {{{Backend::kPath, {0, 0, path, 0}},
           {Backend::kDense, {0, 0, dense, 0}},
           {Backend::kSegmented, {0, 0, segmented, 0}},
           {Backend::kFused, {0, 0, fused, 0}}}};
}

RequestPlan Plan(const PathBatch& batch, const RouteOptions& options,
                 int64_t max_batch_tokens = kNoLimit, TrieUse trie = TrieUse::kWhereNeeded) {
  auto plan = RequestPlan::Create(std::make_shared<const PathBatch>(batch), options,
                                  max_batch_tokens, trie);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// Counts the load from the arrays that the device would get.
RouteLoad CountLoad(const RequestPlan& plan) {
  RouteLoad load;
  for (int32_t index = 0; index < plan.num_parts(); ++index) {
    const TreePlan part = plan.BuildPart(index);
    const int64_t rows = part.grid.rows;
    const int64_t columns = part.grid.columns;
    ++load.forwards;
    load.tokens += rows * columns;
    if (part.backend == Backend::kSegmented) {
      for (const SegmentGroup& group : part.segments->groups) {
        ++load.groups;
        for (int64_t query = 1; query <= group.query_length; ++query) {
          load.pairs += group.rows * (group.start_depth + query);
        }
      }
    } else if (part.backend == Backend::kFused) {
      for (const int32_t position : part.grid.position_ids) {
        load.pairs += position + 1;
      }
    } else {
      load.pairs += rows * columns * columns;
    }
  }
  return load;
}

PathBatch BatchNumber(int index) {
  std::mt19937_64 random(testing::Seed(index));
  return testing::RandomBatch(random);
}

// Returns questions whose candidates share nothing but the question's prefix.
PathBatch Fans(int32_t questions, int32_t candidates, int32_t prefix, int32_t suffix) {
  PathBatch batch;
  int32_t next = 0;
  const auto tokens = [&next](int32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) {
      id = next++;
    }
    return ids;
  };
  for (int32_t question = 0; question < questions; ++question) {
    const std::vector<int32_t> shared = tokens(prefix);
    std::vector<std::vector<int32_t>> suffixes;
    suffixes.reserve(static_cast<size_t>(candidates));
    for (int32_t candidate = 0; candidate < candidates; ++candidate) {
      suffixes.push_back(tokens(suffix));
    }
    batch.AddQuestion(shared, suffixes);
  }
  return batch;
}

TEST(LoadOfTest, IsThatOfTheGridsThatAreBuilt) {
  for (int index = 0; index < kNumRandomBatches; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    for (const Backend backend : kForwardBackends) {
      const RequestPlan plan = Plan(BatchNumber(index), Named(backend));
      const RouteLoad load = plan.load();
      const RouteLoad counted = CountLoad(plan);
      EXPECT_EQ(load.forwards, 1);
      EXPECT_EQ(load.groups, counted.groups);
      EXPECT_EQ(load.tokens, counted.tokens);
      EXPECT_EQ(load.pairs, counted.pairs);
    }
  }
}

TEST(LoadOfTest, PartsAreCountedSlotForSlot) {
  for (int index = 0; index < kNumRandomBatches; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    for (const Backend backend : kForwardBackends) {
      const RequestPlan plan = Plan(BatchNumber(index), Named(backend), 60);
      const RouteLoad counted = CountLoad(plan);
      EXPECT_EQ(plan.load().forwards, counted.forwards);
      EXPECT_EQ(plan.load().tokens, counted.tokens);
      if (backend == Backend::kPath || backend == Backend::kDense) {
        EXPECT_EQ(plan.load().pairs, counted.pairs);
      }
    }
  }
}

TEST(MeasuredRouteTest, TakesTheBackendWithTheLeastForecast) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> cost(0, 1);
  std::map<Backend, int> taken;
  for (int index = 0; index < kNumRandomBatches; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    RouteCosts costs;
    for (const Backend backend : kForwardBackends) {
      costs.backends[backend] = {cost(random), cost(random), cost(random), cost(random) / 10};
    }
    // The path backend computes several times as many tokens, so it is made cheaper per token.
    costs.backends[Backend::kPath].token_ms /= 4;
    costs.backends[Backend::kPath].pair_ms /= 4;
    const PathBatch batch = BatchNumber(index);
    const RequestPlan plan = Plan(batch, Measured(costs));
    EXPECT_EQ(plan.route().reason, Reason::kMeasured);
    EXPECT_EQ(plan.route().policy, Policy::kMeasured);
    const double least = ForecastMs(costs.backends[plan.route().backend], CountLoad(plan));
    ++taken[plan.route().backend];
    for (const Backend backend : kForwardBackends) {
      const RequestPlan named = Plan(batch, Named(backend));
      // A request that names a tree backend may still run on the path backend.
      if (named.route().backend == backend &&
          (backend != Backend::kSegmented || named.counts().segment_suitable)) {
        EXPECT_LE(least, ForecastMs(costs.backends[backend], CountLoad(named)) * (1 + 1e-12));
      }
    }
  }
  for (const Backend backend : kForwardBackends) {
    EXPECT_GT(taken[backend], 5) << BackendName(backend);
  }
}

TEST(MeasuredRouteTest, RunsLikeTheNamedBackend) {
  const PathBatch batch = Fans(2, 4, 20, 5);
  const struct {
    Backend backend;
    RouteCosts costs;
  } cases[] = {{Backend::kPath, CostsByToken(1, 9, 9, 9)},
               {Backend::kDense, CostsByToken(9, 1, 9, 9)},
               {Backend::kSegmented, CostsByToken(9, 9, 1, 9)},
               {Backend::kFused, CostsByToken(9, 9, 9, 1)}};
  for (const auto& [backend, costs] : cases) {
    const RequestPlan plan = Plan(batch, Measured(costs), 64);
    const RequestPlan named = Plan(batch, Named(backend), 64);
    EXPECT_EQ(plan.route().backend, backend);
    ASSERT_EQ(plan.num_parts(), named.num_parts());
    for (int32_t part = 0; part < plan.num_parts(); ++part) {
      EXPECT_EQ(plan.BuildPart(part).grid.token_ids, named.BuildPart(part).grid.token_ids);
      EXPECT_EQ(plan.BuildPart(part).endpoints, named.BuildPart(part).endpoints);
    }
    if (backend == Backend::kFused) {
      EXPECT_EQ(plan.route().layout, Layout::kFlat);
      EXPECT_EQ(plan.counts().mask_bytes, 0);
      EXPECT_EQ(plan.counts().forest_tokens, plan.counts().unique_tokens);
    }
  }
}

TEST(MeasuredRouteTest, TheMaskBudgetHoldsForEachForwardNotForTheWhole) {
  const PathBatch batch = Fans(8, 4, 200, 100);  // 600 nodes per question
  RouteOptions options = Measured(CostsByToken(1, 1, 9, 9));
  options.max_mask_bytes = 600 * 600 * 4;
  EXPECT_EQ(Plan(batch, options, 600).route().backend, Backend::kDense);
  EXPECT_EQ(Plan(batch, options, kNoLimit).route().backend, Backend::kPath);
  options.max_mask_bytes -= 1;
  EXPECT_EQ(Plan(batch, options, 600).route().backend, Backend::kPath);
}

TEST(MeasuredRouteTest, OffersOnlyWhatMayRun) {
  const PathBatch batch = Fans(2, 4, 20, 5);
  const auto offered = [&](const RouteOptions& options) {
    std::vector<Backend> backends;
    const RequestPlan plan = Plan(batch, options);
    for (const RouteForecast& forecast : plan.forecasts()) {
      backends.push_back(forecast.backend);
    }
    return backends;
  };
  RouteOptions options = Measured(CostsByToken(1, 1, 1, 1));
  EXPECT_THAT(offered(options),
              ElementsAre(Backend::kPath, Backend::kDense, Backend::kSegmented, Backend::kFused));
  options.fused_supported = false;
  EXPECT_THAT(offered(options), ElementsAre(Backend::kPath, Backend::kDense, Backend::kSegmented));
  options.max_mask_bytes = 0;
  EXPECT_THAT(offered(options), ElementsAre(Backend::kPath));
  EXPECT_THAT(offered(Measured({{{Backend::kDense, {0, 0, 1, 0}}}})),
              ElementsAre(Backend::kPath, Backend::kDense));
  EXPECT_EQ(Plan(batch, Measured({{{Backend::kDense, {0, 0, 1, 0}}}})).route().backend,
            Backend::kDense);
  options.tree_supported = false;
  EXPECT_THAT(offered(options), ElementsAre());
  EXPECT_EQ(Plan(batch, options).route().reason, Reason::kUnsupportedLayers);
}

TEST(MeasuredRouteTest, NamedBackendsAndReferenceStayAsTheyAre) {
  const PathBatch batch = Fans(1, 4, 20, 5);  // fewer than 1,024 path tokens
  RouteOptions options = Measured(CostsByToken(9, 9, 9, 1));
  options.backend = Backend::kDense;
  EXPECT_EQ(Plan(batch, options).route().reason, Reason::kNone);
  EXPECT_EQ(Plan(batch, options).route().policy, Policy::kMeasured);
  options.backend = Backend::kAuto;
  options.policy = Policy::kReference;
  const RequestPlan plan = Plan(batch, options, kNoLimit, TrieUse::kAlways);
  EXPECT_EQ(plan.route().reason, Reason::kSmallBatch);
  EXPECT_EQ(plan.route().policy, Policy::kReference);
  // Explain shows the forecasts of the other backends.
  EXPECT_EQ(plan.forecasts().size(), 4U);
  EXPECT_TRUE(Plan(batch, options).forecasts().empty());
}

// Returns options in which fused is not supported and questions may share tokens.
RouteOptions Sharing(RouteCosts costs) {
  RouteOptions options = Measured(std::move(costs));
  options.fused_supported = false;
  options.share_questions = true;
  return options;
}

// Checks that each path's slots hold its tokens and, in a segmented plan, that each chain reads the
// slots that the grid's rule allows.
void ExpectPlanIsRight(const PathBatch& batch, const TreePlan& plan) {
  const std::vector<int32_t> questions = testing::PathQuestions(batch);
  for (size_t i = 0; i < plan.paths.size(); ++i) {
    testing::Path tokens;
    for (const int32_t slot : testing::VisibleSlots(plan.grid, plan.endpoints[i])) {
      tokens.push_back(plan.grid.token_ids[slot]);
    }
    EXPECT_EQ(tokens, testing::FullPath(batch, questions[plan.paths[i]], plan.paths[i]));
  }
  if (!plan.segments.has_value()) {
    return;
  }
  std::vector<int32_t> outputs;  // the slot of each output
  for (const SegmentGroup& group : plan.segments->groups) {
    outputs.insert(outputs.end(), group.query_index.begin(), group.query_index.end());
    for (int32_t row = 0; row < group.rows; ++row) {
      const auto ancestors = group.ancestor_index.begin() + row * group.start_depth;
      std::vector<int32_t> reads(ancestors, ancestors + group.start_depth);
      for (int32_t query = 0; query < group.query_length; ++query) {
        const int32_t slot = group.query_index[row * group.query_length + query];
        if (reads.empty() || reads.back() != slot) {
          reads.push_back(slot);
        }
        EXPECT_EQ(reads, testing::VisibleSlots(plan.grid, slot));
      }
    }
  }
  for (const int32_t slot : outputs) {
    EXPECT_EQ(outputs[plan.segments->restore_index[slot]], slot);
  }
}

TEST(SharedQuestionsTest, AreRightAndCountedAndNeverCostMore) {
  std::mt19937 random(6);
  std::uniform_real_distribution<double> cost(0, 1);
  std::map<Backend, int> shared;
  for (int index = 0; index < kNumRandomBatches; ++index) {
    SCOPED_TRACE(testing::Seed(index));
    RouteCosts costs;
    for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
      costs.backends[backend] = {cost(random), cost(random), cost(random), cost(random) / 100};
    }
    const PathBatch batch = BatchNumber(index);
    RouteOptions options = Sharing(costs);
    const RequestPlan plan = Plan(batch, options);
    ASSERT_EQ(plan.num_parts(), 1);
    const TreePlan part = plan.BuildPart(0);
    const RouteLoad counted = CountLoad(plan);
    EXPECT_NEAR(plan.forecast_ms(), ForecastMs(costs.backends[plan.route().backend], counted),
                1e-9 * plan.forecast_ms());
    EXPECT_EQ(plan.load().pairs, counted.pairs);
    EXPECT_EQ(plan.load().tokens, counted.tokens);
    EXPECT_EQ(plan.counts().unique_tokens, plan.trie()->num_nodes());
    if (plan.route().backend != Backend::kPath) {
      EXPECT_EQ(plan.counts().forest_tokens, part.computed_tokens());
      EXPECT_EQ(plan.counts().mask_bytes, 4 * part.computed_tokens() * part.grid.columns);
      ExpectPlanIsRight(batch, part);
      if (plan.route().layout == Layout::kFlat &&
          part.computed_tokens() < plan.counts().unique_tokens) {
        ++shared[part.backend];
      }
    }
    options.share_questions = false;
    EXPECT_LE(plan.forecast_ms(), Plan(batch, options).forecast_ms());
  }
  EXPECT_GT(shared[Backend::kDense], 5);
  EXPECT_GT(shared[Backend::kSegmented], 5);
}

// Returns three questions with the same prefix and 4 candidates each.
PathBatch OneState() {
  PathBatch batch = Fans(3, 4, 20, 5);
  for (TokenSpan& prefix : batch.prefixes) {
    prefix = {batch.prefixes[0].begin, 20};
  }
  return batch;
}

TEST(SharedQuestionsTest, TakeTheirSharedTokensOnce) {
  for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
    RouteCosts costs = CostsByToken(9, 9, 9, 9);
    costs.backends[backend].token_ms = 1;
    const RequestPlan plan = Plan(OneState(), Sharing(costs));
    EXPECT_EQ(plan.route().backend, backend);
    EXPECT_EQ(plan.route().layout, Layout::kFlat);
    EXPECT_EQ(plan.BuildPart(0).computed_tokens(), 20 + 3 * 4 * 5);
    EXPECT_EQ(plan.counts().unique_tokens, 3 * (20 + 4 * 5));
    EXPECT_EQ(plan.counts().segment_groups, 2);
  }
}

TEST(SharedQuestionsTest, StayApartWhereTheyMust) {
  const RouteCosts costs = CostsByToken(9, 1, 9, 9);
  constexpr int64_t kApart = 3 * (20 + 4 * 5);
  RouteOptions options = Sharing(costs);
  options.share_questions = false;
  EXPECT_EQ(Plan(OneState(), options).BuildPart(0).computed_tokens(), kApart) << "switched off";
  options = Sharing(costs);
  options.packing = Packing::kPadded;
  EXPECT_EQ(Plan(OneState(), options).BuildPart(0).computed_tokens(), kApart) << "not flat";
  options = Sharing(costs);
  options.max_mask_bytes = 80 * 80 * 4;
  EXPECT_EQ(Plan(OneState(), options).BuildPart(0).computed_tokens(), 80);
  --options.max_mask_bytes;
  EXPECT_EQ(Plan(OneState(), options).BuildPart(0).computed_tokens(), kApart) << "over the budget";
  options = Sharing(costs);
  EXPECT_EQ(Plan(OneState(), options, 80).num_parts(), 1);
  EXPECT_EQ(Plan(OneState(), options, 79).num_parts(), 3) << "more than one forward";
}

TEST(SharedQuestionsTest, AreKeptApartByWhatTheMaskCosts) {
  RouteCosts costs = CostsByToken(99, 1, 99, 99);
  costs.backends[Backend::kDense].pair_ms = 0.001;  // 40 tokens fewer, 1,600 pairs more
  EXPECT_EQ(Plan(OneState(), Sharing(costs)).BuildPart(0).computed_tokens(), 80);
  costs.backends[Backend::kDense].pair_ms = 0.1;
  EXPECT_EQ(Plan(OneState(), Sharing(costs)).BuildPart(0).computed_tokens(), 120);
}

TEST(OneForwardTest, IsTakenWhateverItCostsWhereThereIsOne) {
  // The padded layout takes 3 x 60 slots, the flat layout 60 + 2 x 3.
  PathBatch batch = Fans(1, 4, 20, 10);
  batch.AddQuestion({900, 901}, {{902}});
  batch.AddQuestion({910, 911}, {{912}});
  RouteOptions options = Sharing(CostsByToken(1, 9, 99, 99));
  EXPECT_GT(Plan(batch, options, 66).num_parts(), 1);
  options.one_forward = true;
  const RequestPlan plan = Plan(batch, options, 66);
  EXPECT_EQ(plan.num_parts(), 1);
  EXPECT_EQ(plan.route().backend, Backend::kDense);
  EXPECT_EQ(plan.forecast_ms(), 9 * 66);
  const RequestPlan cut = Plan(batch, options, 65);
  EXPECT_GT(cut.num_parts(), 1) << "there is none";
  EXPECT_TRUE(std::isinf(cut.forecast_ms()));
}

}  // namespace
}  // namespace canopy
