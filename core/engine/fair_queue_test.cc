#include "core/engine/fair_queue.h"

#include <optional>

#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr auto kBack = FairQueue::End::kBack;

TEST(FairQueueTest, ARiderLeadsTheFurthestBehindByTheLimitAtMost) {
  FairQueue queue;
  queue.Add("behind", 1, kBack);
  queue.Add("ahead", 2, kBack);
  const auto is_second = [](JobId job) { return job == 2; };
  queue.Charge("ahead", 100);
  EXPECT_EQ(queue.Next(100, is_second), JobId{2});
  queue.Charge("ahead", 1);
  EXPECT_EQ(queue.Next(100, is_second), std::nullopt);
  EXPECT_EQ(queue.Next(), JobId{1});
  queue.Charge("behind", 1);
  EXPECT_EQ(queue.Next(100, is_second), JobId{2}) << "the lead is counted from who is behind now";
}

TEST(FairQueueTest, OnlyTheFirstJobOfAClientMayRide) {
  FairQueue queue;
  queue.Add("a", 1, kBack);
  queue.Add("a", 2, kBack);
  queue.Add("b", 3, kBack);
  EXPECT_EQ(queue.Next(100, [](JobId job) { return job == 2; }), std::nullopt);
  EXPECT_EQ(queue.Next(100, [](JobId job) { return job != 1; }), JobId{3});
}

TEST(FairQueueTest, EqualClocksGoInTheOrderOfTheirTurns) {
  FairQueue queue;
  const FairQueue::Place first = queue.Add("a", 1, kBack);
  queue.Add("a", 2, kBack);
  queue.Add("b", 3, kBack);
  EXPECT_EQ(queue.Next(), JobId{1});
  queue.Yield("a", first);
  EXPECT_EQ(queue.Next(), JobId{3}) << "the client went behind the other, too";
  queue.Charge("b", 5);
  EXPECT_EQ(queue.Next(), JobId{2}) << "and the job behind its client's next one";
}

TEST(FairQueueTest, AClientThatComesBackStartsWhereTheFurthestBehindStands) {
  FairQueue queue;
  queue.Add("steady", 1, kBack);
  queue.Add("steady", 2, kBack);
  queue.Charge("steady", 50);
  const int64_t chosen_at = queue.clock();
  queue.Charge("steady", 50);
  EXPECT_EQ(queue.ClockOf("late"), 0) << "the second service may still be called off";
  queue.Advance(chosen_at);
  EXPECT_EQ(queue.ClockOf("late"), 50);
  queue.Add("late", 3, kBack);
  EXPECT_EQ(queue.Next(), JobId{3});
  queue.Charge("late", 49);
  EXPECT_EQ(queue.Next(), JobId{3}) << "50 + 49 is still behind 100";
  queue.Charge("late", 2);
  EXPECT_EQ(queue.Next(), JobId{1});
}

}  // namespace
}  // namespace canopy
