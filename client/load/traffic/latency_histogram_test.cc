#include "client/load/traffic/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

constexpr double kQuantiles[] = {0, 0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1};

// Returns the nearest rank among the sorted latencies.
int64_t ExactQuantile(std::vector<int64_t> sorted, double q) {
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(q * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

void ExpectQuantiles(const std::vector<int64_t>& latencies, const LatencyHistogram& histogram) {
  EXPECT_EQ(histogram.count(), static_cast<int64_t>(latencies.size()));
  for (const double q : kQuantiles) {
    const auto exact = static_cast<double>(ExactQuantile(latencies, q));
    EXPECT_NEAR(absl::ToDoubleNanoseconds(histogram.Quantile(q)), exact,
                exact * LatencyHistogram::kMaxRelativeError)
        << "quantile " << q;
  }
  EXPECT_EQ(histogram.Quantile(1), histogram.max());
  EXPECT_EQ(absl::ToInt64Nanoseconds(histogram.max()), ExactQuantile(latencies, 1));
  EXPECT_EQ(absl::ToInt64Nanoseconds(histogram.min()), ExactQuantile(latencies, 0));
}

// Returns latencies over many powers of two, like those of long tails.
std::vector<int64_t> RandomLatencies(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> latencies(count);
  for (int64_t& ns : latencies) {
    ns =
        static_cast<int64_t>(std::exp(std::uniform_real_distribution<>(0, std::log(1e12))(random)));
  }
  return latencies;
}

TEST(LatencyHistogramTest, QuantilesAreThoseOfSorting) {
  for (const size_t count : {1, 2, 113, 1'000, 20'000}) {
    const std::vector<int64_t> latencies = RandomLatencies(count, count);
    LatencyHistogram histogram;
    for (const int64_t ns : latencies) {
      histogram.Record(absl::Nanoseconds(ns));
    }
    ExpectQuantiles(latencies, histogram);
  }
}

TEST(LatencyHistogramTest, EveryPowerOfTwoAndItsNeighboursKeepTheBound) {
  for (int64_t power = 1; power < std::numeric_limits<int64_t>::max() / 4; power *= 2) {
    for (const int64_t ns : {power - 1, power, power + 1}) {
      LatencyHistogram histogram;
      // The two other values make this one neither the smallest nor the largest.
      histogram.Record(absl::ZeroDuration());
      histogram.Record(absl::Nanoseconds(ns));
      histogram.Record(absl::Nanoseconds(2 * ns + 1));
      EXPECT_NEAR(absl::ToDoubleNanoseconds(histogram.Quantile(0.5)), static_cast<double>(ns),
                  static_cast<double>(ns) * LatencyHistogram::kMaxRelativeError);
    }
  }
}

TEST(LatencyHistogramTest, MergingIsRecordingTogether) {
  const std::vector<int64_t> latencies = RandomLatencies(7, 3'000);
  LatencyHistogram merged;
  merged.Merge(LatencyHistogram());
  for (size_t part = 0; part < 3; ++part) {
    LatencyHistogram histogram;
    for (size_t i = part; i < latencies.size(); i += 3) {
      histogram.Record(absl::Nanoseconds(latencies[i]));
    }
    merged.Merge(histogram);
  }
  merged.Merge(LatencyHistogram());
  ExpectQuantiles(latencies, merged);
  double sum = 0;
  for (const int64_t ns : latencies) {
    sum += static_cast<double>(ns);
  }
  EXPECT_NEAR(absl::ToDoubleNanoseconds(merged.mean()), sum / 3'000, 1);
}

TEST(LatencyHistogramTest, EmptyAndNegative) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.mean(), absl::ZeroDuration());
  histogram.Record(absl::Nanoseconds(-5));
  EXPECT_EQ(histogram.count(), 1);
  EXPECT_EQ(histogram.max(), absl::ZeroDuration());
}

}  // namespace
}  // namespace canopy::client
