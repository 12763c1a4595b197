#include "core/engine/forward_limit.h"

#include "gtest/gtest.h"

namespace canopy {
namespace {

void Fit(ForwardLimit& limit, int64_t tokens, int times) {
  for (int i = 0; i < times; ++i) {
    limit.RecordFit(tokens);
  }
}

TEST(ForwardLimitTest, IsHalfOfWhatFailed) {
  ForwardLimit limit;
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
  EXPECT_TRUE(limit.RecordFailure(1'000));
  EXPECT_EQ(limit.tokens(), 500);
  EXPECT_TRUE(limit.RecordFailure(480));
  EXPECT_EQ(limit.tokens(), 240);
  // A forward that was planned before.
  EXPECT_FALSE(limit.RecordFailure(1'000));
  EXPECT_EQ(limit.tokens(), 240);
  EXPECT_TRUE(limit.RecordFailure(1));
  EXPECT_EQ(limit.tokens(), 1);
}

TEST(ForwardLimitTest, RisesByAnEighthAfterSixtyFourForwardsNearIt) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  Fit(limit, 400, 63);
  EXPECT_EQ(limit.tokens(), 800);
  Fit(limit, 399, 1'000);  // says nothing about 800
  EXPECT_EQ(limit.tokens(), 800);
  Fit(limit, 800, 1);
  EXPECT_EQ(limit.tokens(), 900);
  Fit(limit, 900, 64);
  EXPECT_EQ(limit.tokens(), 1'125);  // by a quarter
  limit.RecordFailure(1'120);
  EXPECT_EQ(limit.tokens(), 560);
  Fit(limit, 560, 64);
  EXPECT_EQ(limit.tokens(), 630);
}

TEST(ForwardLimitTest, AFailureStartsTheCountAnew) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  Fit(limit, 800, 63);
  limit.RecordFailure(1'600);
  Fit(limit, 800, 63);
  EXPECT_EQ(limit.tokens(), 800);
}

TEST(ForwardLimitTest, IsGoneOnceItReachesWhatFailed) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  int rises = 0;
  for (; limit.tokens() != ForwardLimit::kNone; ++rises) {
    ASSERT_LT(limit.tokens(), 1'600);
    Fit(limit, limit.tokens(), 64);
  }
  EXPECT_EQ(rises, 3);
  // 800, then 400: back through both, step by step.
  limit.RecordFailure(1'600);
  limit.RecordFailure(800);
  for (rises = 0; limit.tokens() != ForwardLimit::kNone; ++rises) {
    Fit(limit, limit.tokens(), 64);
  }
  EXPECT_EQ(rises, 4);
  Fit(limit, 1'600, 1'000);
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
}

TEST(ForwardLimitTest, NewWeightsForgetIt) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  limit.Reset();
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
}

}  // namespace
}  // namespace canopy
