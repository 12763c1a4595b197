#include "server/telemetry/trace_context.h"

#include <string>

#include "gtest/gtest.h"

namespace canopy::server {
namespace {

// The example of the specification.
constexpr char kValid[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceparentTest, ReadsWhatTheSpecificationShows) {
  const auto parent = ParseTraceparent(kValid);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(parent->parent_id, "00f067aa0ba902b7");
}

TEST(TraceparentTest, LaterVersionsMayHaveFurtherFields) {
  const std::string later = std::string("cc") + (kValid + 2);
  EXPECT_TRUE(ParseTraceparent(later).has_value());
  EXPECT_TRUE(ParseTraceparent(later + "-what-the-future-will-be-like").has_value());
  EXPECT_FALSE(ParseTraceparent(later + ".what-the-future-will-be-like").has_value());
  EXPECT_FALSE(ParseTraceparent(std::string(kValid) + "-more").has_value());
}

TEST(TraceparentTest, IgnoresWhatIsMalformed) {
  const std::string cases[] = {
      "",
      "00",
      "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-001",
      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0X",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b\xff-01",
  };
  for (const std::string& text : cases) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace canopy::server
