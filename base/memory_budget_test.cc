#include "base/memory_budget.h"

#include <atomic>
#include <chrono>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/status_details.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

TEST(MemoryBudgetTest, ReservationsAreBounded) {
  MemoryBudget budget(100, nullptr);
  MemoryBudget::Reservation first(&budget);
  EXPECT_TRUE(first.Resize(60).ok());
  {
    MemoryBudget::Reservation second(&budget);
    const absl::Status refused = second.Resize(41);
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_EQ(RetryAfter(refused), absl::Milliseconds(500));
    EXPECT_EQ(ErrorReasonName(refused), "MEMORY_FULL");
    EXPECT_TRUE(absl::StrContains(refused.message(), "41")) << refused;
    EXPECT_TRUE(second.Resize(40).ok());
    EXPECT_TRUE(second.Resize(20).ok()) << "smaller is always possible";
    EXPECT_TRUE(second.Resize(40).ok());
    EXPECT_FALSE(second.Resize(41).ok());
    EXPECT_EQ(budget.stats().reserved_bytes, 100);
  }
  EXPECT_EQ(budget.stats().reserved_bytes, 60);
  EXPECT_EQ(budget.stats().refused, 2);
}

TEST(MemoryBudgetTest, ALoneReservationIsAlwaysGranted) {
  MemoryBudget budget(100, [] { return MemoryUse{95, 100}; });
  MemoryBudget::Reservation alone(&budget);
  EXPECT_TRUE(alone.Resize(1'000).ok());
  EXPECT_TRUE(alone.Resize(2'000).ok());
  MemoryBudget::Reservation other(&budget);
  EXPECT_FALSE(other.Resize(1).ok());
}

TEST(MemoryBudgetTest, ReservationsAreRefusedNearTheLimit) {
  std::atomic<int64_t> used{500};
  std::atomic<int64_t> reads{0};
  MemoryBudget budget(1'000'000, [&] {
    ++reads;
    return MemoryUse{used.load(), 1'000};
  });
  MemoryBudget::Reservation first(&budget);
  MemoryBudget::Reservation second(&budget);
  EXPECT_TRUE(first.Resize(200).ok());
  EXPECT_TRUE(second.Resize(200).ok()) << "500 + 200 + 200 of 900 that may be used";
  EXPECT_FALSE(second.Resize(201).ok());
  used = 900;
  while (reads < 2) {
    (void)budget.stats();
  }
  MemoryBudget::Reservation third(&budget);
  EXPECT_FALSE(third.Resize(1).ok());
  EXPECT_TRUE(second.Resize(100).ok());
  EXPECT_EQ(budget.stats().use.used_bytes, 900);
  EXPECT_EQ(budget.stats().use.limit_bytes, 1'000);
}

// Reading the files of the control group takes longer than admitting a request.
TEST(MemoryBudgetTest, ReadsTheLimitNowAndThenOnly) {
  std::atomic<int64_t> reads{0};
  const auto begin = std::chrono::steady_clock::now();
  MemoryBudget budget(1'000'000, [&] {
    ++reads;
    return MemoryUse{0, 1'000'000};
  });
  MemoryBudget::Reservation first(&budget);
  MemoryBudget::Reservation second(&budget);
  EXPECT_TRUE(first.Resize(1).ok());
  for (int64_t bytes = 1; bytes <= 10'000; ++bytes) {
    EXPECT_TRUE(second.Resize(bytes).ok());
  }
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(reads, 1);
  EXPECT_LE(reads, 1 + passed / std::chrono::milliseconds(20));
}

TEST(MemoryBudgetTest, WithoutALimitOnlyReservationsCount) {
  MemoryBudget budget(100, [] { return MemoryUse{}; });
  MemoryBudget::Reservation first(&budget);
  MemoryBudget::Reservation second(&budget);
  EXPECT_TRUE(first.Resize(50).ok());
  EXPECT_TRUE(second.Resize(50).ok());
}

}  // namespace
}  // namespace canopy
