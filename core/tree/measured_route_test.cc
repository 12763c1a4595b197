// Loads against the grids that are built, and the choice against every named route's own load.
#include "core/tree/measured_route.h"

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "core/tree/testing/random_batch.h"
#include "core/tree/tree_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;

constexpr int kNumRandomBatches = 300;
constexpr int64_t kNoLimit = int64_t{1} << 40;
constexpr Backend kBackends[] = {Backend::kPath, Backend::kDense, Backend::kSegmented,
                                 Backend::kFused};

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

// Every backend costs `ms` a token.
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

// Counted from the arrays that the device would get.
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

// `questions` questions of a prefix and `candidates` candidates, nothing shared but the prefix.
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
    for (const Backend backend : kBackends) {
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
    for (const Backend backend : kBackends) {
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
    for (const Backend backend : kBackends) {
      costs.backends[backend] = {cost(random), cost(random), cost(random), cost(random) / 10};
    }
    // Paths have several times the tokens.
    costs.backends[Backend::kPath].token_ms /= 4;
    costs.backends[Backend::kPath].pair_ms /= 4;
    const PathBatch batch = BatchNumber(index);
    const RequestPlan plan = Plan(batch, Measured(costs));
    EXPECT_EQ(plan.route().reason, Reason::kMeasured);
    EXPECT_EQ(plan.route().policy, Policy::kMeasured);
    const double least = ForecastMs(costs.backends[plan.route().backend], CountLoad(plan));
    ++taken[plan.route().backend];
    for (const Backend backend : kBackends) {
      const RequestPlan named = Plan(batch, Named(backend));
      // The rules send some named tree backends to path.
      if (named.route().backend == backend &&
          (backend != Backend::kSegmented || named.counts().segment_suitable)) {
        EXPECT_LE(least, ForecastMs(costs.backends[backend], CountLoad(named)) * (1 + 1e-12));
      }
    }
  }
  for (const Backend backend : kBackends) {
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
  const PathBatch batch = Fans(8, 4, 200, 100);  // 600 nodes a question
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
  // Explain shows what the others would take.
  EXPECT_EQ(plan.forecasts().size(), 4U);
  EXPECT_TRUE(Plan(batch, options).forecasts().empty());
}

}  // namespace
}  // namespace canopy
