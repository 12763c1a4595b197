#include "core/engine/forward_limit.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace canopy {
namespace {

void Fit(ForwardLimit& limit, int64_t tokens, int times) {
  for (int i = 0; i < times; ++i) {
    limit.RecordSuccess(tokens);
  }
}

TEST(ForwardLimitTest, TheLimitIsHalfOfTheFailedSize) {
  ForwardLimit limit;
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
  EXPECT_TRUE(limit.RecordFailure(1'000));
  EXPECT_EQ(limit.tokens(), 500);
  EXPECT_TRUE(limit.RecordFailure(480));
  EXPECT_EQ(limit.tokens(), 240);
  // This forward was planned before the failure.
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
  EXPECT_EQ(limit.tokens(), 1'125);  // raised by a quarter
  limit.RecordFailure(1'120);
  EXPECT_EQ(limit.tokens(), 560);
  Fit(limit, 560, 64);
  EXPECT_EQ(limit.tokens(), 630);
}

TEST(ForwardLimitTest, AFailureRestartsTheCount) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  Fit(limit, 800, 63);
  limit.RecordFailure(1'600);
  Fit(limit, 800, 63);
  EXPECT_EQ(limit.tokens(), 800);
}

TEST(ForwardLimitTest, TheLimitIsRemovedAtTheFailedSize) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  int rises = 0;
  for (; limit.tokens() != ForwardLimit::kNone; ++rises) {
    ASSERT_LT(limit.tokens(), 1'600);
    Fit(limit, limit.tokens(), 64);
  }
  EXPECT_EQ(rises, 3);
  // The failures are 800, and 400 after forwards of 800 had fitted. The limit rises past both, step
  // by step.
  limit.RecordFailure(1'600);
  Fit(limit, 800, 1);
  limit.RecordFailure(800);
  for (rises = 0; limit.tokens() != ForwardLimit::kNone; ++rises) {
    Fit(limit, limit.tokens(), 63);
    const int64_t before = limit.tokens();
    Fit(limit, before, 1);
    ASSERT_NE(limit.tokens(), before);
  }
  EXPECT_EQ(rises, 4);
  Fit(limit, 1'600, 1'000);
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
}

// One job is cut from 16,384 tokens to 1 within milliseconds.
TEST(ForwardLimitTest, AChainOfRetriesIsForgottenWithinTwoHundredForwards) {
  ForwardLimit limit;
  for (int64_t tokens = 16'384; tokens > 1; tokens /= 2) {
    limit.RecordFailure(tokens);
  }
  EXPECT_EQ(limit.tokens(), 1);
  int fits = 0;
  for (; limit.tokens() != ForwardLimit::kNone && fits < 1'000; ++fits) {
    limit.RecordSuccess(limit.tokens());
  }
  EXPECT_LE(fits, 220);
}

TEST(ForwardLimitTest, TheLastRaisesAfterAChainTakeSixtyFourForwards) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  limit.RecordFailure(800);
  limit.RecordFailure(400);
  Fit(limit, 200, 8);
  EXPECT_EQ(limit.tokens(), 225);
  Fit(limit, 225, 8);
  EXPECT_EQ(limit.tokens(), 281);
  Fit(limit, 281, 8);
  EXPECT_EQ(limit.tokens(), 421);
  Fit(limit, 421, 8);
  EXPECT_EQ(limit.tokens(), 842);
  Fit(limit, 842, 63);
  EXPECT_EQ(limit.tokens(), 842) << "half of what failed first";
  Fit(limit, 842, 1);
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
}

// The device never fits more than 300 tokens.
TEST(ForwardLimitTest, ASmallDeviceFailsSeldom) {
  ForwardLimit limit;
  int failures = 0;
  for (int forward = 0; forward < 10'000; ++forward) {
    const int64_t tokens = std::min<int64_t>(limit.tokens(), 1'600);
    if (tokens > 300) {
      limit.RecordFailure(tokens);
      ++failures;
    } else {
      limit.RecordSuccess(tokens);
    }
  }
  EXPECT_LE(failures, 10'000 / 60);
}

TEST(ForwardLimitTest, NewWeightsForgetIt) {
  ForwardLimit limit;
  limit.RecordFailure(1'600);
  limit.Reset();
  EXPECT_EQ(limit.tokens(), ForwardLimit::kNone);
}

}  // namespace
}  // namespace canopy
