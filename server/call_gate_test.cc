#include "server/call_gate.h"

#include <thread>

#include "gtest/gtest.h"

namespace canopy::server {
namespace {

TEST(CallGateTest, LetsNobodyInWhileLoading) {
  CallGate gate;
  EXPECT_EQ(gate.Enter().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(gate.AwaitIdle(absl::ZeroDuration()));
  gate.Open({nullptr, {{"limit", 3}}});
  const auto state = gate.Enter();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ((*state)->limits.at("limit"), 3);
  gate.Leave();
}

TEST(CallGateTest, DrainingRefusesAndWaitsForThoseInside) {
  CallGate gate;
  gate.Open({});
  ASSERT_TRUE(gate.Enter().ok());
  ASSERT_TRUE(gate.Enter().ok());
  gate.StartDraining();
  EXPECT_EQ(gate.Enter().status().code(), absl::StatusCode::kUnavailable);
  gate.Leave();
  EXPECT_FALSE(gate.AwaitIdle(absl::Milliseconds(1)));
  std::thread last([&gate] { gate.Leave(); });
  EXPECT_TRUE(gate.AwaitIdle(absl::InfiniteDuration()));
  last.join();
}

}  // namespace
}  // namespace canopy::server
