#include "core/engine/job_estimate.h"

#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tree/route_costs.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

ScoreJob Job() {
  auto batch = std::make_shared<PathBatch>();
  batch->AddQuestion({1, 2, 3, 4}, {{5}, {6, 7}});
  batch->AddQuestion({1, 2}, {{3, 4, 5}});
  ScoreJob job;
  job.batch = std::move(batch);
  job.outputs.scores = true;
  return job;
}

ModelInfo Model() {
  ModelInfo model;
  model.name = "m";
  model.hidden_size = 10;
  model.num_labels = 2;
  return model;
}

RouteOptions Route(Backend backend) {
  RouteOptions route;
  route.backend = backend;
  route.fused_supported = true;
  return route;
}

TEST(JobEstimate, CountsWhatTheRouteWouldCompute) {
  JobEstimate estimate = EstimateJob(Job(), Route(Backend::kFused), Model());
  EXPECT_EQ(estimate.tokens, 4 + 1 + 2 + 2 + 3) << "unique tokens";
  EXPECT_EQ(estimate.device_bytes, 12 * 10 * 4 + 3 * 2 * 4);
  EXPECT_EQ(EstimateJob(Job(), Route(Backend::kPath), Model()).tokens, 3 * 6);
  EXPECT_EQ(EstimateJob(Job(), Route(Backend::kAuto), Model()).tokens, 3 * 6) << "a small batch";
  EXPECT_EQ(EstimateJob(Job(), Route(Backend::kDense), Model()).tokens, 2 * 7) << "padded";
}

// Two candidates begin alike. The estimate counts their shared tokens once.
TEST(JobEstimate, CountsWhatCandidatesShareOnce) {
  auto batch = std::make_shared<PathBatch>();
  batch->AddQuestion({1, 2, 3, 4}, {{5, 6, 7}, {5, 6, 8}, {5, 6, 7}});
  ScoreJob job = Job();
  job.batch = std::move(batch);
  EXPECT_EQ(EstimateJob(job, Route(Backend::kFused), Model()).tokens, 4 + 2 + 2);
}

TEST(JobEstimate, WindowLayersCountPathTokens) {
  RouteOptions route = Route(Backend::kAuto);
  route.tree_supported = false;
  EXPECT_EQ(EstimateJob(Job(), route, Model()).tokens, 3 * 6);
}

TEST(JobEstimate, ForecastsTheLeastTimeOfTheMeasuredPolicyAlone) {
  RouteOptions route = Route(Backend::kAuto);
  RouteCosts costs;
  costs.backends[Backend::kPath] = {7, 0, 0.5, 1};
  costs.backends[Backend::kDense] = {7, 0, 0.25, 1};
  route.costs = std::make_shared<const RouteCosts>(costs);
  EXPECT_EQ(EstimateJob(Job(), route, Model()).forecast_nanos, 0) << "fixed rules";
  route.policy = Policy::kMeasured;
  EXPECT_EQ(EstimateJob(Job(), route, Model()).forecast_nanos, 1'750'000)
      << "seven nodes of the larger question, which the other may begin like";
  costs.backends[Backend::kFused] = {0, 0, 0.125, 0};
  route.costs = std::make_shared<const RouteCosts>(costs);
  EXPECT_EQ(EstimateJob(Job(), route, Model()).forecast_nanos, 875'000);
  route.fused_supported = false;
  EXPECT_EQ(EstimateJob(Job(), route, Model()).forecast_nanos, 1'750'000);
  route.costs = std::make_shared<const RouteCosts>();
  EXPECT_EQ(EstimateJob(Job(), route, Model()).forecast_nanos, 0);
}

TEST(JobEstimate, ResultsCountAsBytes) {
  ScoreJob job = Job();
  job.outputs.vectors = true;
  job.outputs.vector_type = VectorType::kBFloat16;
  job.outputs.token_logprobs = true;
  job.outputs.top_logprobs = 3;
  EXPECT_EQ(EstimateJob(job, Route(Backend::kFused), Model()).device_bytes,
            12 * 10 * 4 + 3 * (2 * 4 + 10 * 2) + 16 * (1 + 2 * 3) * 4);
}

TEST(ShareKey, UnderTheMeasuredPolicyAutoMayShare) {
  RouteOptions route = Route(Backend::kAuto);
  route.policy = Policy::kMeasured;
  route.costs = std::make_shared<const RouteCosts>();
  const std::string key = ShareKey(Job(), route, Model(), false);
  EXPECT_NE(key, "");
  EXPECT_NE(key, ShareKey(Job(), Route(Backend::kFused), Model(), false)) << "routed otherwise";
  EXPECT_EQ(EstimateJob(Job(), route, Model()).tokens, 12);
  route.fused_supported = false;
  EXPECT_EQ(ShareKey(Job(), route, Model(), false), key) << "by another backend";
  for (const auto& change : std::vector<std::function<void(RouteOptions*)>>{
           [](RouteOptions* route) { route->backend = Backend::kDense; },
           [](RouteOptions* route) { route->tree_supported = false; },
           [](RouteOptions* route) { route->max_mask_bytes = 0; },
           [](RouteOptions* route) { route->costs = nullptr; }}) {
    RouteOptions changed = route;
    change(&changed);
    EXPECT_EQ(ShareKey(Job(), changed, Model(), false), "");
  }
}

TEST(ShareKey, UnderTheReferencePolicyOnlyFusedJobsHaveOne) {
  for (const Backend backend :
       {Backend::kAuto, Backend::kDense, Backend::kSegmented, Backend::kPath}) {
    EXPECT_EQ(ShareKey(Job(), Route(backend), Model(), false), "");
  }
  EXPECT_NE(ShareKey(Job(), Route(Backend::kFused), Model(), false), "");
  RouteOptions route = Route(Backend::kFused);
  route.fused_supported = false;
  EXPECT_EQ(ShareKey(Job(), route, Model(), false), "") << "to be refused alone";
  route.fused_supported = true;
  route.max_mask_bytes = -1;
  EXPECT_EQ(ShareKey(Job(), route, Model(), false), "") << "likewise";
}

TEST(ShareKey, DiffersWhereOneForwardWouldNotDo) {
  const std::string key = ShareKey(Job(), Route(Backend::kFused), Model(), false);
  EXPECT_EQ(ShareKey(Job(), Route(Backend::kFused), Model(), false), key);
  const std::vector<std::function<void(ScoreJob*)>> changes = {
      [](ScoreJob* job) { job->tenant = "t"; },
      [](ScoreJob* job) { job->outputs.vector_type = VectorType::kFloat16; },
      [](ScoreJob* job) { job->outputs.normalize = true; },
      [](ScoreJob* job) { job->outputs.scope = TokenScope::kPath; },
      [](ScoreJob* job) { job->outputs.temperature = std::nextafter(1.0F, 2.0F); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    ScoreJob job = Job();
    changes[i](&job);
    EXPECT_NE(ShareKey(job, Route(Backend::kFused), Model(), false), key) << "change " << i;
  }
  ModelInfo model = Model();
  model.name = "n";
  EXPECT_NE(ShareKey(Job(), Route(Backend::kFused), model, false), key);
  // The key depends neither on the sender nor on the priority.
  ScoreJob job = Job();
  job.client = "c";
  job.priority = Priority::kLow;
  EXPECT_EQ(ShareKey(job, Route(Backend::kFused), Model(), false), key);
  job.tenant = "t";
  EXPECT_EQ(ShareKey(job, Route(Backend::kFused), Model(), true), key);
}

TEST(ShareKey, EverySetOfOutputsHasItsOwn) {
  std::set<std::string> keys;
  const auto add_key = [&keys](const OutputSelection& outputs) {
    ScoreJob job = Job();
    job.outputs = outputs;
    const std::string key = ShareKey(job, Route(Backend::kFused), Model(), false);
    EXPECT_TRUE(keys.insert(key).second) << key;
  };
  add_key({});
  for (const OutputSpec& spec : kOutputs) {
    if (spec.computed != spec.output) {
      continue;
    }
    OutputSelection outputs;
    Ask(spec.output, 1, &outputs);
    add_key(outputs);
    if (spec.count != nullptr) {
      Ask(spec.output, 2, &outputs);
      add_key(outputs);
    }
  }
}

TEST(ShareKey, NamesDoNotRunTogether) {
  ScoreJob job = Job();
  ModelInfo model = Model();
  model.name = "m1";
  job.tenant = ":x";
  const std::string key = ShareKey(job, Route(Backend::kFused), model, false);
  model.name = "m";
  job.tenant = "1:x";
  EXPECT_NE(ShareKey(job, Route(Backend::kFused), model, false), key);
}

}  // namespace
}  // namespace canopy
