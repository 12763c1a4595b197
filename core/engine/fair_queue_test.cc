#include "core/engine/fair_queue.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr auto kBack = FairQueue::End::kBack;

TEST(FairQueueTest, AJoiningClientLeadsTheOneFurthestBehindByAtMostTheLimit) {
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

TEST(FairQueueTest, OnlyTheFirstJobOfAClientMayJoin) {
  FairQueue queue;
  queue.Add("a", 1, kBack);
  queue.Add("a", 2, kBack);
  queue.Add("b", 3, kBack);
  EXPECT_EQ(queue.Next(100, [](JobId job) { return job == 2; }), std::nullopt);
  EXPECT_EQ(queue.Next(100, [](JobId job) { return job != 1; }), JobId{3});
}

TEST(FairQueueTest, EqualClocksGoInTheOrderOfArrival) {
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

TEST(FairQueueTest, AReturningClientStartsAtTheClockFurthestBehind) {
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

// A client whose service was called off goes next again, before a client with the same clock.
TEST(FairQueueTest, AJobPutBackAtTheFrontGoesFirst) {
  FairQueue queue;
  FairQueue::Place first = queue.Add("a", 1, kBack);
  const FairQueue::Place second = queue.Add("a", 2, kBack);
  const FairQueue::Place of_b = queue.Add("b", 3, kBack);
  queue.Remove("a", first);
  EXPECT_EQ(queue.Next(), JobId{2});
  first = queue.Add("a", 1, FairQueue::End::kFront);
  EXPECT_EQ(queue.Next(), JobId{1});
  FairQueue::Place only = queue.Add("c", 4, kBack);
  queue.Remove("c", only);
  only = queue.Add("c", 4, FairQueue::End::kFront);
  EXPECT_EQ(queue.Next(), JobId{4});
  // The client is also where it was while it has other jobs.
  queue.Charge("a", 0);
  const FairQueue::Place third = queue.Add("b", 5, FairQueue::End::kFront);
  EXPECT_EQ(queue.Next(), JobId{5});
  queue.Remove("b", third);
  EXPECT_EQ(queue.Next(), JobId{3});
  queue.Remove("b", of_b);
  EXPECT_EQ(queue.Next(), JobId{4});
  queue.Remove("c", only);
  EXPECT_EQ(queue.Next(), JobId{1});
  queue.Remove("a", first);
  EXPECT_EQ(queue.Next(), JobId{2});
  queue.Remove("a", second);
  EXPECT_TRUE(queue.empty()) << "each once";
}

TEST(FairQueueTest, AChargedClientGoesAfterTheOthers) {
  FairQueue queue;
  queue.Add("a", 1, kBack);
  queue.Add("b", 2, kBack);
  queue.Charge("b", 7);
  queue.Charge("a", 7);
  EXPECT_EQ(queue.Next(), JobId{2}) << "served before, so it goes first among equal clocks";
  queue.Charge("a", 5);
  queue.Charge("b", 5);
  queue.Charge("b", -5);
  queue.Charge("a", -5);
  EXPECT_EQ(queue.Next(), JobId{1})
      << "what is given back moves the clock, not the order of arrival";
}

// The charge of a client is remembered while it is absent, until the others have caught up.
TEST(FairQueueTest, AClientAheadIsRememberedUntilTheVirtualTimeReachesItsClock) {
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

// Clients with a charge are remembered, however many clients without one come and go.
TEST(FairQueueTest, AClientWithoutAChargeIsForgottenAtOnce) {
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

TEST(FairQueueTest, TokensAheadAreThoseThatClocksLetGoFirst) {
  FairQueue queue;
  queue.Add("a", 1, kBack);
  queue.ChangeWaiting("a", 100);
  queue.Add("b", 2, kBack);
  queue.ChangeWaiting("b", 30);
  queue.Charge("b", 15);
  EXPECT_EQ(queue.TokensAhead("new", 20), 20 + 5) << "20 of a, and b from 15 to 20";
  EXPECT_EQ(queue.TokensAhead("new", 60), 60 + 30);
  EXPECT_EQ(queue.TokensAhead("new", 1'000), 100 + 30);
  EXPECT_EQ(queue.TokensAhead("b", 10), 30 + 55) << "its own, and a up to 15 + 30 + 10";
  EXPECT_EQ(queue.TokensAhead("a", 10), 100 + 30);
  queue.ChangeWaiting("a", -60);
  EXPECT_EQ(queue.TokensAhead("new", 1'000), 40 + 30);
}

// Computes the result by the definition, one client after the other.
TEST(FairQueueTest, TokensAheadAreWhatALinearSearchCounts) {
  struct Known {
    std::vector<std::pair<FairQueue::Place, int64_t>> jobs;
    int64_t waiting = 0;
  };
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    const auto draw = [&random](int64_t below) { return static_cast<int64_t>(random() % below); };
    FairQueue queue;
    std::map<std::string, Known> clients;
    for (int step = 0; step < 500; ++step) {
      const std::string name = std::to_string(draw(8));
      Known& client = clients[name];
      if (client.jobs.empty() || draw(3) == 0) {
        const int64_t tokens = 1 + draw(50);
        client.jobs.emplace_back(queue.Add(name, static_cast<JobId>(step),
                                           draw(4) == 0 ? FairQueue::End::kFront : kBack),
                                 tokens);
        queue.ChangeWaiting(name, tokens);
        client.waiting += tokens;
      } else if (draw(2) == 0) {
        const auto [place, tokens] = client.jobs.back();
        client.jobs.pop_back();
        queue.ChangeWaiting(name, -tokens);
        client.waiting -= tokens;
        queue.Remove(name, place);
      } else {
        queue.Charge(name, draw(60) - 10);
        if (draw(3) == 0) {
          queue.Advance(queue.clock());
        }
      }
      const std::string asks = std::to_string(draw(9));
      const int64_t tokens = 1 + draw(80);
      int64_t expected = clients[asks].waiting;
      const int64_t clock_then = queue.ClockOf(asks) + expected + tokens;
      for (const auto& [other, known] : clients) {
        if (other != asks && known.waiting > 0) {
          expected += std::clamp<int64_t>(clock_then - queue.ClockOf(other), 0, known.waiting);
        }
      }
      ASSERT_EQ(queue.TokensAhead(asks, tokens), expected) << "step " << step;
    }
  }
}

// Clocks count tokens as long as the server runs.
TEST(FairQueueTest, TokensAheadAreExactForClocksNearTheEndOfTheirRange) {
  FairQueue queue;
  constexpr int64_t kFar = int64_t{1} << 61;
  for (int i = 0; i < 20; ++i) {
    const std::string client = std::to_string(i);
    queue.Add(client, static_cast<JobId>(i), kBack);
    queue.Charge(client, kFar);
    queue.ChangeWaiting(client, 10);
  }
  queue.Advance(kFar);
  EXPECT_EQ(queue.TokensAhead("new", 7), 20 * 7);
}

}  // namespace
}  // namespace canopy
