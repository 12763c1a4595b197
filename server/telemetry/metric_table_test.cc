#include "server/telemetry/metric_table.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/telemetry/metric_labels.h"
#include "server/telemetry/metric_registry.h"

namespace canopy::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// Bounds the size of the page, because it is scraped every few seconds.
constexpr size_t kMaxClosedSeries = 1'000;

TEST(MetricTableTest, TheTableIsInTheOrderOfItsEnum) {
  size_t place = 0;
  for (const MetricDeclaration& declaration : MetricTable()) {
    EXPECT_EQ(static_cast<size_t>(declaration.metric), place++) << declaration.name;
  }
  EXPECT_EQ(place, static_cast<size_t>(Metric::kProcessStartTime) + 1);
}

// https://prometheus.io/docs/practices/naming, which `promtool check metrics` checks.
TEST(MetricTableTest, NamesFollowPrometheus) {
  std::set<std::string> names;
  for (const MetricDeclaration& declaration : MetricTable()) {
    const std::string& name = declaration.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(name, MatchesRegex("(canopy|process)_[a-z_]+"));
    EXPECT_EQ(absl::EndsWith(name, "_total"), declaration.type == MetricType::kCounter) << name;
    EXPECT_FALSE(declaration.help.empty()) << name;
    EXPECT_FALSE(declaration.unit.empty()) << name;
    for (const char* unit : {"seconds", "bytes"}) {
      if (declaration.unit == unit) {
        EXPECT_TRUE(absl::StrContains(name, unit)) << name;
      }
    }
    for (const MetricLabel& label : declaration.labels) {
      EXPECT_NE(label.values.empty(), label.origin.empty()) << name << " " << label.name;
    }
    EXPECT_LE(declaration.closed() ? declaration.labels.size() : 0, 2) << name;
  }
}

TEST(MetricTableTest, SecondsBucketsReachFromATenthOfAMillisecondToAMinuteInSmallSteps) {
  int found = 0;
  for (const MetricDeclaration& declaration : MetricTable()) {
    EXPECT_EQ(declaration.buckets.empty(), declaration.type != MetricType::kHistogram);
    if (declaration.type != MetricType::kHistogram || declaration.unit != "seconds") {
      continue;
    }
    ++found;
    EXPECT_EQ(declaration.buckets.front(), 0.0001);
    EXPECT_EQ(declaration.buckets.back(), 60);
    for (size_t i = 1; i < declaration.buckets.size(); ++i) {
      EXPECT_GT(declaration.buckets[i], declaration.buckets[i - 1]);
      EXPECT_LE(declaration.buckets[i], declaration.buckets[i - 1] * 1.6);
    }
  }
  EXPECT_EQ(found, 7);
}

TEST(MetricRegistryTest, ClosedSeriesAreThereFromTheStartAndFew) {
  MetricRegistry registry;
  EXPECT_LE(registry.num_closed_series(), kMaxClosedSeries);
  registry.counter(Metric::kRequests, 1, CodeIndex(grpc::StatusCode::CANCELLED)).Increment();
  registry.gauge(Metric::kQueuedRequests, 1).Set(7);
  registry
      .counter(Metric::kRoutes, BackendIndex(Backend::kFused), RouteReasonIndex(Reason::kMeasured))
      .Increment();
  registry.histogram(Metric::kQueueSeconds, 1).Observe(0.5);
  const std::string page = registry.Render();
  for (const char* line : {"canopy_requests_total{code=\"CANCELLED\",method=\"ScoreStream\"} 1\n",
                           "canopy_requests_total{code=\"OK\",method=\"Score\"} 0\n",
                           "canopy_queued_requests{priority=\"low\"} 7\n",
                           "canopy_queued_requests{priority=\"normal\"} 0\n",
                           "canopy_routes_total{backend=\"fused\",reason=\"measured\"} 1\n",
                           "canopy_queue_seconds_count{priority=\"low\"} 1\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST(MetricRegistryTest, OpenSeriesAreReplacedAndCapped) {
  MetricRegistry registry;
  for (int version = 1; version <= 2; ++version) {
    registry.SetOpen(Metric::kModelVersion, {"demo"}, version);
  }
  EXPECT_THAT(registry.Render(), HasSubstr("canopy_model_version{model=\"demo\"} 2\n"));
  registry.ClearOpen(Metric::kModelVersion);
  EXPECT_THAT(registry.Render(), Not(HasSubstr("canopy_model_version{")));
  for (size_t i = 0; i < 2 * kMaxOpenSeries; ++i) {
    registry.SetOpen(Metric::kModelVersion, {std::to_string(i)}, 1);
  }
  const std::string page = registry.Render();
  EXPECT_THAT(page, HasSubstr("{model=\"63\"}"));
  EXPECT_THAT(page, Not(HasSubstr("{model=\"64\"}")));
}

TEST(MetricLabelsTest, EveryValueHasItsPlace) {
  const auto codes = CodeNames();
  EXPECT_EQ(codes[CodeIndex(grpc::StatusCode::UNAVAILABLE)], "UNAVAILABLE");
  EXPECT_EQ(codes[CodeIndex(grpc::StatusCode::ABORTED)], "UNKNOWN");
  const auto reasons = ErrorReasonNames();
  EXPECT_EQ(reasons[ErrorReasonIndex("")], "none");
  EXPECT_EQ(reasons[ErrorReasonIndex("DRAINING")], "DRAINING");
  EXPECT_EQ(reasons[ErrorReasonIndex("made up")], "other");
  EXPECT_EQ(RouteReasonNames()[RouteReasonIndex(Reason::kNone)], "none");
  EXPECT_EQ(RouteReasonNames()[RouteReasonIndex(Reason::kNonFiniteRerun)], "non_finite_rerun");
  EXPECT_EQ(BackendNames()[BackendIndex(Backend::kPath)], "path");
}

}  // namespace
}  // namespace canopy::server
