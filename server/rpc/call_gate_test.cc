#include "server/rpc/call_gate.h"

#include <thread>

#include "base/status_details.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

TEST(CallGateTest, CallsAreUnavailableWhileLoading) {
  CallGate gate;
  const absl::Status loading = gate.Enter().status();
  EXPECT_EQ(loading.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReasonName(loading), "LOADING");
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
  EXPECT_FALSE(gate.AwaitIdle(absl::ZeroDuration()));
  gate.StartDraining();
  const absl::Status draining = gate.Enter().status();
  EXPECT_EQ(draining.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReasonName(draining), "DRAINING");
  gate.Leave();
  EXPECT_FALSE(gate.AwaitIdle(absl::Milliseconds(1)));
  std::thread last([&gate] { gate.Leave(); });
  EXPECT_TRUE(gate.AwaitIdle(absl::InfiniteDuration()));
  last.join();
}

TEST(CallGateTest, EachWatcherIsCalledOnce) {
  CallGate gate;
  int early = 0;
  int gone = 0;
  int late = 0;
  gate.AddDrainWatcher(&early, [&early] { ++early; });
  gate.AddDrainWatcher(&gone, [&gone] { ++gone; });
  gate.RemoveDrainWatcher(&gone);
  EXPECT_EQ(early, 0);
  gate.StartDraining();
  EXPECT_EQ(early, 1);
  gate.AddDrainWatcher(&late, [&late] { ++late; });
  EXPECT_EQ(late, 1) << "at once: it has begun";
  gate.StartDraining();
  EXPECT_EQ(early, 1);
  EXPECT_EQ(late, 1);
  EXPECT_EQ(gone, 0);
}

}  // namespace
}  // namespace canopy::server
