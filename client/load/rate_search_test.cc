#include "client/load/rate_search.h"

#include <vector>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(SearchRateTest, FindsTheLimitFromEitherSide) {
  for (const double limit : {0.7, 99.0, 100.0, 101.0, 20'000.0}) {
    const double found =
        SearchRate(RateSearchOptions(), [limit](double rate) { return rate <= limit; });
    EXPECT_LE(found, limit);
    EXPECT_GE(found * 1.05, limit);
  }
}

TEST(SearchRateTest, NeverProbesBetweenWhatIsKnown) {
  std::vector<double> probes;
  SearchRate(RateSearchOptions(), [&probes](double rate) {
    probes.push_back(rate);
    return rate <= 300;
  });
  EXPECT_EQ(probes[0], 100);
  EXPECT_EQ(probes[1], 200);
  EXPECT_EQ(probes[2], 400);
  for (size_t i = 3; i < probes.size(); ++i) {
    EXPECT_GT(probes[i], 200);
    EXPECT_LT(probes[i], 400);
  }
}

TEST(SearchRateTest, EndsWhenNothingOrEverythingMeets) {
  int probes = 0;
  EXPECT_EQ(SearchRate(RateSearchOptions(),
                       [&probes](double /*rate*/) {
                         ++probes;
                         return false;
                       }),
            0);
  EXPECT_EQ(probes, 24);
  EXPECT_EQ(SearchRate({1, 0.05, 3}, [](double /*rate*/) { return true; }), 4);
}

}  // namespace
}  // namespace canopy::client
