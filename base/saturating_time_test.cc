#include "base/saturating_time.h"

#include "gtest/gtest.h"

namespace canopy {
namespace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using std::chrono::nanoseconds;

constexpr TimePoint kStart{std::chrono::hours(1'000)};

TEST(SaturatingTimeTest, AddsWithinTheRangeOfTheClock) {
  EXPECT_EQ(SaturatingAdd(kStart, absl::ZeroDuration()), kStart);
  EXPECT_EQ(SaturatingAdd(kStart, absl::Nanoseconds(1)), kStart + nanoseconds(1));
  EXPECT_EQ(SaturatingAdd(kStart, -absl::Hours(1)), kStart - std::chrono::hours(1));
  const nanoseconds room = TimePoint::max() - kStart;
  EXPECT_EQ(SaturatingAdd(kStart, absl::FromChrono(room - nanoseconds(1))),
            TimePoint::max() - nanoseconds(1));
  EXPECT_EQ(SaturatingAdd(kStart, absl::FromChrono(room)), TimePoint::max());
}

TEST(SaturatingTimeTest, StopsAtTheEndsOfTheClock) {
  for (const absl::Duration far :
       {absl::FromChrono(nanoseconds::max()), absl::Hours(2'562'047), absl::Hours(99'999'999),
        absl::Hours(1) * 1e15, absl::InfiniteDuration()}) {
    EXPECT_EQ(SaturatingAdd(kStart, far), TimePoint::max()) << far;
    EXPECT_EQ(SaturatingAdd(TimePoint(-kStart.time_since_epoch()), -far), TimePoint::min()) << far;
  }
}

TEST(SaturatingTimeTest, NeverStaysNever) {
  EXPECT_EQ(SaturatingAdd(TimePoint::max(), -absl::Hours(1)), TimePoint::max());
  EXPECT_EQ(TimeBetween(kStart, TimePoint::max()), absl::InfiniteDuration());
}

TEST(SaturatingTimeTest, TheTimeBetweenTwoInstantsIsExact) {
  EXPECT_EQ(TimeBetween(kStart, kStart + nanoseconds(5)), absl::Nanoseconds(5));
  EXPECT_EQ(TimeBetween(kStart, TimePoint::min()),
            absl::FromChrono(nanoseconds::min()) - absl::Hours(1'000));
  EXPECT_EQ(TimeBetween(TimePoint::min(), TimePoint::max() - nanoseconds(1)),
            absl::FromChrono(nanoseconds::max()) - absl::FromChrono(nanoseconds::min()) -
                absl::Nanoseconds(1));
}

TEST(SaturatingTimeTest, AddsOnTheWallClockToo) {
  using Wall = std::chrono::system_clock;
  EXPECT_EQ(SaturatingAdd(Wall::now(), absl::InfiniteDuration()), Wall::time_point::max());
}

}  // namespace
}  // namespace canopy
