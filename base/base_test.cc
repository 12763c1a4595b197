#include <cmath>
#include <limits>

#include "base/checked_math.h"
#include "base/logging.h"
#include "base/status_details.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

TEST(CheckedMathTest, ReportsOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 32, int64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(SaturatingMultiply(kMax, 2), kMax);
  EXPECT_EQ(SaturatingMultiply(3, 2), 6);
}

TEST(LoggingTest, TextQuotesWhatWouldBreakALine) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, "INFO", "start",
                          {{"listen", "127.0.0.1:1"}, {"name", "a b\n"}, {"n", 3}, {"on", true}}),
            "INFO start listen=127.0.0.1:1 name=\"a b\\u000a\" n=3 on=true");
}

TEST(LoggingTest, JsonIsAsciiWhateverTheBytes) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, "ERROR", "x",
                          {{"k", "\"\\\x01\xff\xc3\xa9\xf0\x9f\x98\x80"}, {"d", 0.5}}),
            "{\"severity\":\"ERROR\",\"event\":\"x\","
            "\"k\":\"\\\"\\\\\\u0001\\ufffd\\u00e9\\ud83d\\ude00\",\"d\":0.5}");
}

TEST(LoggingTest, AFloodOfOneEventLeavesLinesOutAndOthersAlone) {
  const int64_t before = LogLinesLeftOut();
  SetLogOptions({LogFormat::kText, 3});
  int written = 0;
  // Even on a slow machine, most of these calls exceed the limit of their second.
  for (int i = 0; i < 10'000; ++i) {
    written += LogInfo("flood", {{"i", i}}) ? 1 : 0;
  }
  EXPECT_GE(written, 3);
  EXPECT_LT(written, 10'000);
  EXPECT_EQ(LogLinesLeftOut() - before, 10'000 - written);
  EXPECT_TRUE(LogInfo("other"));
  SetLogOptions({LogFormat::kText, 0});
  EXPECT_TRUE(LogInfo("flood"));
  SetLogOptions({});
}

TEST(LoggingTest, JsonQuotesNonFiniteNumbers) {
  EXPECT_EQ(FormatLogLine(LogFormat::kJson, "INFO", "x", {{"d", std::nan("")}}),
            "{\"severity\":\"INFO\",\"event\":\"x\",\"d\":\"nan\"}");
}

TEST(StatusDetailsTest, ARetryDelayIsOneThatTheWireCanCarry) {
  const auto delay_of = [](absl::Duration delay) {
    return RetryAfter(WithRetryAfter(absl::UnavailableError("busy"), delay));
  };
  EXPECT_EQ(delay_of(absl::Milliseconds(2'345)), absl::Milliseconds(2'345));
  EXPECT_EQ(delay_of(absl::InfiniteDuration()), absl::Hours(24));
  EXPECT_EQ(delay_of(absl::Hours(99'999'999)), absl::Hours(24));
  EXPECT_EQ(delay_of(-absl::InfiniteDuration()), absl::ZeroDuration());
  EXPECT_EQ(RetryAfter(absl::UnavailableError("busy")), std::nullopt);
}

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) {
    return absl::InvalidArgumentError("odd");
  }
  return value / 2;
}

absl::StatusOr<int> Quarter(int value) {
  CANOPY_ASSIGN_OR_RETURN(const int half, Half(value));
  CANOPY_RETURN_IF_ERROR(Half(half).status());
  return half / 2;
}

TEST(StatusMacrosTest, ReturnTheFirstError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_EQ(Quarter(3).status().message(), "odd");
}

}  // namespace
}  // namespace canopy
