#include "client/load/report/thresholds.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ThresholdsTest, DecideByNameAndComparison) {
  const std::vector<Figure> figures = {{"retries", 5}, {"error_share", 0.25}};
  const auto missed = [&figures](const char* text) {
    const auto thresholds = ParseThresholds(text);
    EXPECT_TRUE(thresholds.ok()) << thresholds.status();
    return MissedThresholds(*thresholds, figures);
  };
  EXPECT_THAT(missed(""), IsEmpty());
  EXPECT_THAT(missed("retries<=5,retries>=5,retries<5.1,retries>4.9,error_share<0.5"), IsEmpty());
  EXPECT_THAT(missed("retries<5,retries>5,retries<=4,retries>=6"),
              ElementsAre("retries is 5, not < 5", "retries is 5, not > 5",
                          "retries is 5, not <= 4", "retries is 5, not >= 6"));
  const std::vector<Figure> not_a_number = {{"retries", std::nan("")}};
  EXPECT_EQ(MissedThresholds(*ParseThresholds("retries<=5,retries>5"), not_a_number).size(), 2U);
}

TEST(ThresholdsTest, WrongOnesAreNamed) {
  for (const char* wrong : {"retries", "retries=5", "<5", "retries<", "retries<x", "retries<inf",
                            "retries<nan", "speed<5", "retries<5,", "retries<<5"}) {
    const auto refused = ParseThresholds(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << wrong;
    EXPECT_THAT(refused.status().message(), HasSubstr("threshold '"));
  }
}

}  // namespace
}  // namespace canopy::client
