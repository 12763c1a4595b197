#include "core/engine/fair_queue.h"

#include <optional>
#include <string>

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

// Whose service was called off goes next again, before a client whose clock agrees with its own.
TEST(FairQueueTest, AJobPutBackAtTheFrontGoesFirst) {
  FairQueue queue;
  const FairQueue::Place first = queue.Add("a", 1, kBack);
  queue.Add("a", 2, kBack);
  queue.Add("b", 3, kBack);
  queue.Remove("a", first);
  EXPECT_EQ(queue.Next(), JobId{2});
  queue.Add("a", 1, FairQueue::End::kFront);
  EXPECT_EQ(queue.Next(), JobId{1});
  const FairQueue::Place only = queue.Add("c", 4, kBack);
  queue.Remove("c", only);
  queue.Add("c", 4, FairQueue::End::kFront);
  EXPECT_EQ(queue.Next(), JobId{4});
  // Its client too is where it was, also while it has other jobs.
  queue.Charge("a", 0);
  const FairQueue::Place third = queue.Add("b", 5, FairQueue::End::kFront);
  EXPECT_EQ(queue.Next(), JobId{5});
  queue.Remove("b", third);
  EXPECT_EQ(queue.Next(), JobId{3});
  std::string order;
  queue.VisitInOrder([&order](const std::string& client, int64_t /*clock*/) {
    order += client;
    return true;
  });
  EXPECT_EQ(order, "bca") << "each once";
}

TEST(FairQueueTest, AChargeGivesTheTurnToTheOthers) {
  FairQueue queue;
  queue.Add("a", 1, kBack);
  queue.Add("b", 2, kBack);
  queue.Charge("b", 7);
  queue.Charge("a", 7);
  EXPECT_EQ(queue.Next(), JobId{2}) << "served before, so its turn is first among equals";
  queue.Charge("a", 5);
  queue.Charge("b", 5);
  queue.Charge("b", -5);
  queue.Charge("a", -5);
  EXPECT_EQ(queue.Next(), JobId{1}) << "what is given back moves the clock, not the turn";
}

// Debts outlive absence, until the others have caught up.
TEST(FairQueueTest, AClientThatWentAheadIsRememberedUntilThePresentReachesIt) {
  FairQueue queue;
  queue.Add("steady", 1, kBack);
  const FairQueue::Place gone = queue.Add("ahead", 2, kBack);
  queue.Charge("ahead", 30);
  queue.Remove("ahead", gone);
  EXPECT_EQ(queue.ClockOf("ahead"), 30);
  EXPECT_EQ(queue.ClockOf("new"), 0);
  queue.Advance(20);
  queue.Advance(10);
  EXPECT_EQ(queue.ClockOf("new"), 20) << "the present does not go back";
  EXPECT_EQ(queue.ClockOf("ahead"), 30);
  queue.Advance(40);
  EXPECT_EQ(queue.ClockOf("ahead"), 40);
  const FairQueue::Place back = queue.Add("ahead", 3, kBack);
  EXPECT_EQ(queue.ClockOf("ahead"), 40);
  queue.Remove("ahead", back);
  EXPECT_EQ(queue.ClockOf("steady"), 0) << "who waits keeps what it is owed";
}

TEST(FairQueueTest, IdleClientsAreForgottenWhenThereAreTooMany) {
  FairQueue queue;
  queue.Add("waits", 0, kBack);
  queue.Charge("waits", 5);
  for (int i = 1; i <= 4'097; ++i) {
    const std::string client = std::to_string(i);
    const FairQueue::Place place = queue.Add(client, i, kBack);
    queue.Charge(client, 10);
    queue.Remove(client, place);
  }
  EXPECT_EQ(queue.ClockOf("1"), 10) << "4,097 wait for the next to come";
  queue.Add("last", 5'000, kBack);
  EXPECT_EQ(queue.ClockOf("1"), 0);
  EXPECT_EQ(queue.ClockOf("4097"), 0);
  EXPECT_EQ(queue.ClockOf("waits"), 5) << "who has a job is not idle";
  EXPECT_EQ(queue.Next(), JobId{5'000});
}

// However many come and go without a debt, those who have one are remembered.
TEST(FairQueueTest, WhoOwesNothingIsForgottenAtOnce) {
  FairQueue queue;
  const FairQueue::Place gone = queue.Add("ahead", 1, kBack);
  queue.Charge("ahead", 30);
  queue.Remove("ahead", gone);
  for (int i = 2; i < 6'000; ++i) {
    const std::string client = std::to_string(i);
    queue.Remove(client, queue.Add(client, i, kBack));
  }
  EXPECT_EQ(queue.ClockOf("ahead"), 30);
}

TEST(FairQueueTest, ClientsAreVisitedFromTheFurthestBehindUntilTold) {
  FairQueue queue;
  queue.Add("b", 1, kBack);
  queue.Add("c", 2, kBack);
  queue.Add("a", 3, kBack);
  queue.Charge("b", 2);
  queue.Charge("c", 1);
  std::string visited;
  const auto visit_two = [&visited](const std::string& client, int64_t clock) {
    visited += client + std::to_string(clock) + " ";
    return visited.size() < 6;
  };
  queue.VisitInOrder(visit_two);
  EXPECT_EQ(visited, "a0 c1 ");
}

}  // namespace
}  // namespace canopy
