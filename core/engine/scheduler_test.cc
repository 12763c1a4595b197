#include "core/engine/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TimePoint kStart{std::chrono::seconds(100)};

JobRequest Job(JobId id, const std::string& client, int64_t tokens,
               const std::string& share_key = "") {
  JobRequest request;
  request.id = id;
  request.client = client;
  request.share_key = share_key;
  request.tokens = tokens;
  return request;
}

class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() {
    options_.max_batch_tokens = 100;
    options_.max_queued_requests = 1'000;
  }

  Scheduler& scheduler() {
    if (scheduler_ == nullptr) {
      scheduler_ = std::make_unique<Scheduler>(options_);
    }
    return *scheduler_;
  }

  // As many forwards of one size as make evidence.
  void Record(int64_t tokens, std::chrono::duration<double> duration,
              int64_t forwards = DrainRates::kMinSamples) {
    Turn turn;
    turn.tokens = turn.size_tokens = tokens;
    for (int64_t i = 0; i < forwards; ++i) {
      scheduler().RecordForward(turn, duration);
    }
  }

  bool Admit(const JobRequest& request) {
    return !scheduler().Admit(request, now_).refusal.has_value();
  }

  std::vector<JobId> Take() {
    const std::optional<Turn> turn = scheduler().Take(now_);
    return turn.has_value() ? turn->jobs : std::vector<JobId>{};
  }

  // Takes and launches until nothing waits; the job that led each turn.
  std::vector<JobId> RunAll() {
    std::vector<JobId> order;
    while (const std::optional<Turn> turn = scheduler().Take(now_)) {
      order.push_back(turn->jobs.front());
      scheduler().Launch(*turn);
    }
    return order;
  }

  Scheduler::Options options_;
  std::unique_ptr<Scheduler> scheduler_;
  TimePoint now_ = kStart;
};

TEST_F(SchedulerTest, OneClientIsServedInOrder) {
  for (JobId id = 1; id <= 5; ++id) {
    EXPECT_TRUE(Admit(Job(id, "a", 10 * static_cast<int64_t>(id))));
  }
  EXPECT_THAT(RunAll(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(SchedulerTest, ClientsAreServedInEqualTokens) {
  // Ten times as many jobs do not buy more, nor do larger ones.
  for (JobId id = 0; id < 400; ++id) {
    Admit(Job(1'000 + id, "greedy", 10));
  }
  for (JobId id = 0; id < 40; ++id) {
    Admit(Job(2'000 + id, "modest", 10));
    Admit(Job(3'000 + id, "large", 40));
  }
  std::map<JobId, int64_t> served;
  while (const std::optional<Turn> turn = scheduler().Take(now_)) {
    served[turn->jobs.front() / 1'000] += turn->tokens;
    if (served[2] == 400) {
      break;
    }
    EXPECT_LE(std::abs(served[1] - served[2]), 10);
    EXPECT_LE(std::abs(served[1] - served[3]), 40);
  }
}

TEST_F(SchedulerTest, AClientThatWasAwayDoesNotSaveUp) {
  for (JobId id = 1; id <= 40; ++id) {
    Admit(Job(id, "steady", 10));
  }
  for (int i = 0; i < 20; ++i) {
    scheduler().Launch(*scheduler().Take(now_));
  }
  for (JobId id = 101; id <= 110; ++id) {
    Admit(Job(id, "late", 10));
  }
  std::vector<JobId> order = RunAll();
  order.resize(20);
  EXPECT_EQ(std::count_if(order.begin(), order.end(), [](JobId id) { return id > 100; }), 10);
  EXPECT_LE(order[0] > 100 ? order[1] : order[0], 100) << "they alternate from the start";
}

// Clients that share each other's forwards lead one that cannot by two batches at most.
TEST_F(SchedulerTest, SharingDoesNotStarveWhatRunsAlone) {
  std::mt19937 random(7);
  std::map<std::string, int64_t> served;
  JobId next = 1;
  std::map<JobId, std::string> client_of;
  std::map<JobId, int64_t> tokens_of;
  std::map<std::string, int> waiting;
  for (int round = 0; round < 3'000; ++round) {
    for (const std::string client : {"alone", "x", "y", "z"}) {
      while (waiting[client] < 12) {
        const JobRequest job = Job(next++, client, 1 + static_cast<int64_t>(random() % 60),
                                   client == "alone" ? "" : "key");
        ASSERT_TRUE(Admit(job));
        client_of[job.id] = client;
        tokens_of[job.id] = job.tokens;
        ++waiting[client];
      }
    }
    const Turn turn = *scheduler().Take(now_);
    for (const JobId id : turn.jobs) {
      served[client_of[id]] += tokens_of[id];
      --waiting[client_of[id]];
      scheduler().Finish(id);
    }
    for (const auto& [client, tokens] : served) {
      ASSERT_LE(tokens - served["alone"], 200) << client << ", round " << round;
    }
  }
}

// A client whose large jobs ride in every forward of a small one's.
TEST_F(SchedulerTest, ARiderDoesNotRunAway) {
  std::map<std::string, int64_t> served;
  JobId next = 1;
  const auto refill = [&](const std::string& client, int64_t tokens, const std::string& key) {
    JobRequest job = Job(next * 3 + (client == "rider"  ? 0
                                     : client == "host" ? 1
                                                        : 2),
                         client, tokens, key);
    ++next;
    ASSERT_TRUE(Admit(job));
  };
  for (int i = 0; i < 4; ++i) {
    refill("rider", 45, "key");
    refill("host", 5, "key");
    refill("alone", 5, "");
  }
  for (int round = 0; round < 500; ++round) {
    const Turn turn = *scheduler().Take(now_);
    for (const JobId id : turn.jobs) {
      const bool is_rider = id % 3 == 0;
      const std::string client = is_rider ? "rider" : id % 3 == 1 ? "host" : "alone";
      served[client] += is_rider ? 45 : 5;
      scheduler().Finish(id);
      refill(client, is_rider ? 45 : 5, client == "alone" ? "" : "key");
    }
    ASSERT_LE(served["rider"] - served["alone"], 200) << "round " << round;
  }
}

TEST_F(SchedulerTest, WhoComesWhileAPartRunsDoesNotWaitForTheNextOne) {
  Admit(Job(1, "large", 400));
  for (int part = 0; part < 2; ++part) {
    const Turn running = *scheduler().Take(now_);
    scheduler().Continue(1, 300 - 100 * part);
    scheduler().Launch(running);
    const Turn planned = *scheduler().Take(now_);
    ASSERT_THAT(planned.jobs, ElementsAre(1));
    const JobId first = 2 + 2 * part;
    Admit(Job(first, "first" + std::to_string(part), 5));
    ASSERT_TRUE(scheduler().WouldChange(planned, first));
    scheduler().Return(planned);
    const Turn small = *scheduler().Take(now_);
    ASSERT_THAT(small.jobs, ElementsAre(first));
    // The part has stepped back once already.
    Admit(Job(first + 1, "second" + std::to_string(part), 5));
    scheduler().Launch(small);
    const Turn next = *scheduler().Take(now_);
    EXPECT_THAT(next.jobs, ElementsAre(first + 1));
    scheduler().Launch(next);
  }
}

TEST_F(SchedulerTest, SmallJobsRunBetweenThePartsOfALargeOne) {
  Admit(Job(1, "a", 300));
  Turn part = *scheduler().Take(now_);
  EXPECT_EQ(part.tokens, 100);
  scheduler().Continue(1, 200);
  scheduler().Launch(part);
  Admit(Job(2, "a", 5));  // of the same client
  Admit(Job(3, "b", 5));  // and of another
  EXPECT_THAT(Take(), ElementsAre(3)) << "the other client has had nothing";
  EXPECT_THAT(Take(), ElementsAre(2)) << "though it came after the next part";
  Admit(Job(4, "a", 5));
  part = *scheduler().Take(now_);
  EXPECT_THAT(part.jobs, ElementsAre(1)) << "once a part, or it would starve";
  scheduler().Launch(part);
  scheduler().Continue(1, 100);
  EXPECT_THAT(Take(), ElementsAre(4));
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(SchedulerTest, APartYieldsOnlyWhereAWholeJobOfItsClientWaits) {
  Admit(Job(1, "a", 5));
  Admit(Job(2, "a", 300));
  Admit(Job(3, "a", 300));
  EXPECT_THAT(Take(), ElementsAre(1));
  scheduler().Finish(1);
  const Turn part = *scheduler().Take(now_);
  EXPECT_THAT(part.jobs, ElementsAre(2));
  scheduler().Launch(part);
  Admit(Job(4, "a", 5));
  EXPECT_THAT(Take(), ElementsAre(4)) << "the third has not let anybody go first yet";
}

TEST_F(SchedulerTest, APlannedPartYieldsToASmallJobOnce) {
  Admit(Job(1, "a", 300));
  scheduler().Launch(*scheduler().Take(now_));
  scheduler().Continue(1, 200);
  Turn planned = *scheduler().Take(now_);
  Admit(Job(2, "a", 5));
  EXPECT_TRUE(scheduler().WouldChange(planned, 2));
  scheduler().Return(planned);
  EXPECT_THAT(Take(), ElementsAre(2));
  planned = *scheduler().Take(now_);
  EXPECT_THAT(planned.jobs, ElementsAre(1));
  EXPECT_EQ(planned.tokens, 100);
  Admit(Job(3, "a", 5));
  EXPECT_FALSE(scheduler().WouldChange(planned, 3)) << "or it would starve";
}

TEST_F(SchedulerTest, APlannedPartYieldsThoughTheNextOneWaitsAlready) {
  for (const std::string client : {"a", "b"}) {
    SCOPED_TRACE(client);
    scheduler_ = nullptr;
    Admit(Job(1, "a", 400));
    scheduler().Launch(*scheduler().Take(now_));
    scheduler().Continue(1, 300);
    const Turn planned = *scheduler().Take(now_);
    scheduler().Continue(1, 200);
    Admit(Job(2, client, 5));
    EXPECT_TRUE(scheduler().WouldChange(planned, 2));
    scheduler().Return(planned);
    EXPECT_THAT(Take(), ElementsAre(2));
    EXPECT_THAT(Take(), ElementsAre(1));
  }
}

TEST_F(SchedulerTest, APlannedBatchGrows) {
  Admit(Job(1, "a", 40, "k"));
  const Turn planned = *scheduler().Take(now_);
  Admit(Job(2, "b", 40, "k"));
  Admit(Job(3, "b", 40, "other"));
  Admit(Job(4, "b", 70, "k"));
  EXPECT_TRUE(scheduler().WouldChange(planned, 2));
  EXPECT_FALSE(scheduler().WouldChange(planned, 3));
  EXPECT_FALSE(scheduler().WouldChange(planned, 4)) << "does not fit";
  scheduler().Return(planned);
  EXPECT_THAT(Take(), ElementsAre(1, 2));
}

TEST_F(SchedulerTest, OnlyJobsOfOneKeyRunTogether) {
  Admit(Job(1, "a", 10, "k"));
  Admit(Job(2, "b", 10));
  Admit(Job(3, "c", 10, "k"));
  Admit(Job(4, "d", 10, "other"));
  Admit(Job(5, "e", 10, "k"));
  EXPECT_THAT(Take(), ElementsAre(1, 3, 5));
  EXPECT_THAT(Take(), ElementsAre(2));
  EXPECT_THAT(Take(), ElementsAre(4));
}

TEST_F(SchedulerTest, TokensAndBytesBoundABatch) {
  options_.max_batch_bytes = 50;
  Admit(Job(1, "a", 60, "k"));
  Admit(Job(2, "a", 40, "k"));
  Admit(Job(3, "a", 1, "k"));
  for (JobId id = 4; id <= 6; ++id) {
    JobRequest job = Job(id, "a", 1, "k");
    job.device_bytes = 25;
    Admit(job);
  }
  JobRequest huge = Job(7, "a", 1, "k");
  huge.device_bytes = 51;
  Admit(huge);
  EXPECT_THAT(Take(), ElementsAre(1, 2));
  EXPECT_THAT(Take(), ElementsAre(3, 4, 5));
  EXPECT_THAT(Take(), ElementsAre(6));
  EXPECT_THAT(Take(), ElementsAre(7)) << "alone, rather than never";
}

TEST_F(SchedulerTest, LowPriorityWaitsUntilItsPatienceEnds) {
  options_.low_priority_patience = absl::Milliseconds(1);
  JobRequest low = Job(1, "a", 10);
  low.priority = Priority::kLow;
  Admit(low);
  low.id = 2;
  Admit(low);
  for (JobId id = 11; id <= 16; ++id) {
    Admit(Job(id, "a", 10));
  }
  EXPECT_EQ(scheduler().queued_requests(Priority::kLow), 2);
  EXPECT_THAT(Take(), ElementsAre(11));
  now_ += microseconds(999);
  EXPECT_THAT(Take(), ElementsAre(12));
  now_ += microseconds(1);
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_THAT(Take(), ElementsAre(13)) << "every second forward, not all of them";
  EXPECT_THAT(Take(), ElementsAre(2));
}

TEST_F(SchedulerTest, LowPriorityRunsWhenNothingElseWaits) {
  JobRequest low = Job(1, "a", 10, "k");
  low.priority = Priority::kLow;
  Admit(low);
  Admit(Job(2, "b", 10, "k"));
  EXPECT_THAT(Take(), ElementsAre(2, 1)) << "joins where no normal one waits longer for it";
  low.id = 3;
  Admit(low);
  Admit(Job(4, "c", 10, "k"));
  Admit(Job(5, "d", 10));
  EXPECT_THAT(Take(), ElementsAre(4));
  EXPECT_THAT(Take(), ElementsAre(5));
  EXPECT_THAT(Take(), ElementsAre(3));
}

TEST_F(SchedulerTest, AWindowHoldsABatchThatIsNotFull) {
  options_.batch_window = absl::Microseconds(500);
  Admit(Job(1, "a", 10, "k"));
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_EQ(scheduler().held_until(), kStart + microseconds(500));
  now_ += microseconds(200);
  Admit(Job(2, "b", 10, "k"));
  EXPECT_THAT(Take(), IsEmpty());
  now_ += microseconds(300);
  EXPECT_THAT(Take(), ElementsAre(1, 2));
  Admit(Job(3, "a", 60, "k"));
  Admit(Job(4, "a", 60, "k"));
  EXPECT_THAT(Take(), ElementsAre(3)) << "full";
  Admit(Job(5, "b", 10));
  scheduler().Cancel(4);
  EXPECT_THAT(Take(), ElementsAre(5)) << "what runs alone has nothing to wait for";
}

TEST_F(SchedulerTest, AFullQueueKeepsItsShareForEachClient) {
  options_.max_queued_requests = 4;
  for (JobId id = 1; id <= 4; ++id) {
    EXPECT_TRUE(Admit(Job(id, "greedy", 10)));
  }
  EXPECT_FALSE(Admit(Job(5, "greedy", 10)));
  Scheduler::Admission admission = scheduler().Admit(Job(6, "modest", 10), now_);
  EXPECT_FALSE(admission.refusal.has_value());
  EXPECT_EQ(admission.displaced, JobId{4}) << "the newest of the greedy client";
  EXPECT_GT(admission.retry_delay, microseconds(0));
  EXPECT_EQ(scheduler().Admit(Job(7, "modest", 10), now_).displaced, JobId{3});
  admission = scheduler().Admit(Job(8, "modest", 10), now_);
  EXPECT_EQ(admission.refusal, Refusal::kQueuedRequests) << "they hold two each";
  EXPECT_EQ(scheduler().totals().displaced, 2);
  EXPECT_EQ(scheduler().totals().refused[0], 2);
}

TEST_F(SchedulerTest, ANormalJobTakesThePlaceOfALowOne) {
  options_.max_queued_requests = 2;
  JobRequest low = Job(1, "a", 10);
  low.priority = Priority::kLow;
  Admit(low);
  low.id = 2;
  Admit(low);
  low.id = 3;
  EXPECT_FALSE(Admit(low));
  EXPECT_EQ(scheduler().Admit(Job(4, "a", 10), now_).displaced, JobId{2});
}

TEST_F(SchedulerTest, TheTokenLimitCountsWhatWasNotLaunched) {
  options_.max_queued_tokens = 100;
  EXPECT_TRUE(Admit(Job(1, "a", 300))) << "nothing else waits";
  EXPECT_EQ(scheduler().Admit(Job(2, "a", 1), now_).refusal, Refusal::kQueuedTokens);
  const Turn turn = *scheduler().Take(now_);
  EXPECT_EQ(scheduler().queued_tokens(), 300) << "it may still come back";
  scheduler().Continue(1, 200);
  EXPECT_EQ(scheduler().queued_tokens(), 300);
  scheduler().Launch(turn);
  EXPECT_EQ(scheduler().queued_tokens(), 200) << "what runs does not wait";
  EXPECT_FALSE(Admit(Job(3, "a", 1))) << "parts of it still wait";
  const Turn second = *scheduler().Take(now_);
  scheduler().Continue(1, 60);
  scheduler().Return(second);
  EXPECT_EQ(scheduler().queued_tokens(), 160) << "the part that was called off waits again";
  const Turn again = *scheduler().Take(now_);
  scheduler().Continue(1, 60);
  scheduler().Launch(again);
  EXPECT_EQ(scheduler().queued_tokens(), 60);
  EXPECT_TRUE(Admit(Job(4, "b", 40))) << "though the last part of the first waits";
  EXPECT_FALSE(Admit(Job(5, "b", 1))) << "and nothing has to make room: the first has begun";
  EXPECT_TRUE(scheduler().Cancel(1));
  EXPECT_EQ(scheduler().queued_tokens(), 40);
}

TEST_F(SchedulerTest, AForwardThatComputesMoreThanEstimatedIsCharged) {
  Admit(Job(1, "a", 10));
  Admit(Job(2, "a", 10));
  Admit(Job(3, "b", 10));
  Admit(Job(4, "b", 10));
  const Turn turn = *scheduler().Take(now_);
  ASSERT_THAT(turn.jobs, ElementsAre(1));
  scheduler().Correct(turn, 5);  // no refund: nobody is served more for a poor estimate
  scheduler().Correct(turn, 25);
  EXPECT_EQ(turn.tokens, 10) << "forecasts stay in the unit of estimates";
  scheduler().Launch(turn);
  EXPECT_THAT(RunAll(), ElementsAre(3, 4, 2)) << "b has had 20 when a has had 25";
}

TEST_F(SchedulerTest, ACorrectionIsRefundedWithItsTurn) {
  Admit(Job(1, "a", 10));
  Admit(Job(2, "b", 10));
  Admit(Job(3, "b", 10));
  const Turn turn = *scheduler().Take(now_);
  ASSERT_THAT(turn.jobs, ElementsAre(1));
  scheduler().Correct(turn, 25);
  scheduler().Return(turn);
  EXPECT_EQ(scheduler().queued_tokens(), 30);
  EXPECT_THAT(RunAll(), ElementsAre(1, 2, 3));
}

// The forwards of a device with little memory are smaller than a batch.
TEST_F(SchedulerTest, AJobInSmallPartsIsChargedAndCountedByItsTokens) {
  Admit(Job(1, "a", 80, "key"));
  int64_t charged = 0;
  for (int64_t left = 70; left >= 0; left -= 10) {
    Turn turn = *scheduler().Take(now_);
    ASSERT_THAT(turn.jobs, ElementsAre(1));
    scheduler().CorrectPart(&turn, 10);
    if (left > 0) {
      scheduler().Continue(1, left, 10);
    }
    EXPECT_EQ(scheduler().queued_tokens(), left + 10);
    EXPECT_EQ(turn.tokens, 10);
    EXPECT_EQ(turn.size_tokens, 10) << "as what its time is recorded";
    EXPECT_EQ(turn.share_key, "") << "nobody joins a part";
    charged += turn.tokens;
    scheduler().Launch(turn);
    EXPECT_EQ(scheduler().queued_tokens(), left);
  }
  EXPECT_EQ(charged, 80);
  EXPECT_THAT(Take(), IsEmpty());
}

// Each client has 8 forwards of 10, one as the parts of one job.
TEST_F(SchedulerTest, SmallPartsTakeTurnsWithJobsOfTheirSize) {
  Admit(Job(1, "parts", 80));
  for (JobId id = 2; id <= 9; ++id) {
    Admit(Job(id, "whole", 10));
  }
  int64_t left = 80;
  int64_t parts = 0;
  int64_t whole = 0;
  while (std::optional<Turn> turn = scheduler().Take(now_)) {
    if (turn->jobs.front() == 1) {
      left -= 10;
      ++parts;
      scheduler().CorrectPart(&*turn, 10);
      if (left > 0) {
        scheduler().Continue(1, left, 10);
      }
    } else {
      ++whole;
    }
    scheduler().Launch(*turn);
    EXPECT_LE(std::abs(parts - whole), 1);
  }
  EXPECT_EQ(parts, 8);
  EXPECT_EQ(whole, 8);
}

TEST_F(SchedulerTest, APartThatIsCalledOffIsRefundedAndCountsAsBefore) {
  Admit(Job(1, "a", 80, "key"));
  Turn turn = *scheduler().Take(now_);
  scheduler().CorrectPart(&turn, 10);
  scheduler().Continue(1, 70, 10);
  scheduler().Return(turn);
  EXPECT_EQ(scheduler().queued_tokens(), 80);
  Admit(Job(2, "b", 10));
  const Turn again = *scheduler().Take(now_);
  EXPECT_THAT(again.jobs, ElementsAre(1)) << "what was called off was not charged";
  EXPECT_EQ(again.tokens, 10);
  scheduler().Launch(again);
}

// It shares forwards by its estimate, and turns out to need several.
TEST_F(SchedulerTest, AJobThatTurnsOutToRunInPartsYieldsAndSharesNoMore) {
  Admit(Job(1, "a", 80, "key"));
  Turn turn = *scheduler().Take(now_);
  scheduler().CorrectPart(&turn, 20);
  scheduler().Continue(1, 60, 20);
  scheduler().Launch(turn);
  Admit(Job(2, "a", 5));
  EXPECT_THAT(Take(), ElementsAre(2)) << "a part lets its client's whole jobs go first";
  Admit(Job(3, "b", 30, "key"));
  const Turn shared = *scheduler().Take(now_);
  EXPECT_THAT(shared.jobs, ElementsAre(3));
  EXPECT_EQ(shared.size_tokens, 30) << "the parts of the first are not in the batch";
}

TEST_F(SchedulerTest, AJobLargerThanTheTokenLimitMayDisplaceTheOnlyOneThatWaits) {
  options_.max_queued_tokens = 100;
  JobRequest low = Job(1, "a", 50);
  low.priority = Priority::kLow;
  Admit(low);
  EXPECT_EQ(scheduler().Admit(Job(2, "a", 500), now_).displaced, JobId{1});
  EXPECT_EQ(scheduler().queued_tokens(), 500);
  // With another beside the victim it does not fit, and nobody loses a place.
  scheduler_ = nullptr;
  Admit(low);
  Admit(Job(3, "a", 10));
  const Scheduler::Admission admission = scheduler().Admit(Job(4, "a", 91), now_);
  EXPECT_EQ(admission.refusal, Refusal::kQueuedTokens);
  EXPECT_EQ(admission.displaced, std::nullopt);
  EXPECT_EQ(scheduler().Admit(Job(5, "a", 90), now_).displaced, JobId{1});
}

TEST_F(SchedulerTest, RetryDelaysFollowTheDrainRate) {
  options_.max_queued_requests = 10;
  for (JobId id = 1; id <= 10; ++id) {
    Admit(Job(id, "a", 100));
  }
  EXPECT_EQ(scheduler().Admit(Job(11, "a", 1), now_).retry_delay, microseconds(100'000))
      << "nothing is known yet";
  Record(1, std::chrono::hours(1));
  EXPECT_EQ(scheduler().Admit(Job(11, "a", 1), now_).retry_delay, microseconds(100'000))
      << "small forwards say nothing about large ones";
  Record(100, std::chrono::milliseconds(50));
  EXPECT_EQ(scheduler().Admit(Job(11, "a", 1), now_).retry_delay, microseconds(250'000))
      << "half of 1,000 tokens at 2,000 a second";
  Record(100, std::chrono::hours(1), 100);
  EXPECT_EQ(scheduler().Admit(Job(11, "a", 1), now_).retry_delay, microseconds(5'000'000));
}

TEST_F(SchedulerTest, ForecastsFollowRecentForwards) {
  using Seconds = std::chrono::duration<double>;
  EXPECT_EQ(scheduler().Forecast(1), Seconds::max()) << "nothing is known yet";
  Record(100, std::chrono::milliseconds(50), 1);
  EXPECT_DOUBLE_EQ(scheduler().Forecast(300).count(), 0.150);
  Record(100, std::chrono::milliseconds(10), 200);
  EXPECT_NEAR(scheduler().Forecast(300).count(), 0.030, 0.001) << "the past fades";
}

TEST_F(SchedulerTest, ADeadlineThatCannotBeMetIsRefused) {
  Record(100, std::chrono::milliseconds(100));
  JobRequest hurried = Job(1, "a", 100);
  hurried.deadline = now_ + std::chrono::milliseconds(1);
  EXPECT_TRUE(Admit(hurried)) << "nothing is ahead: it may try";
  for (JobId id = 2; id <= 9; ++id) {
    Admit(Job(id, "a", 100));
  }
  JobRequest late = Job(20, "a", 90);
  late.deadline = now_ + std::chrono::milliseconds(1'300);
  EXPECT_EQ(scheduler().Admit(late, now_).refusal, Refusal::kDeadline) << "990 ms of 1,300 x 0.75";
  late.deadline = now_ + std::chrono::milliseconds(1'400);
  EXPECT_TRUE(Admit(late));
  JobRequest other = Job(21, "b", 10);
  other.deadline = now_ + std::chrono::milliseconds(100);
  EXPECT_TRUE(Admit(other)) << "another client does not wait for the backlog of the first";
}

TEST_F(SchedulerTest, ABatchWindowBeyondTheClockHoldsABatchUntilItIsFull) {
  options_.batch_window = absl::InfiniteDuration();
  EXPECT_TRUE(Admit(Job(1, "a", 60, "shared")));
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_EQ(scheduler().held_until(), TimePoint::max());
  EXPECT_TRUE(Admit(Job(2, "a", 50, "shared")));
  EXPECT_THAT(Take(), ElementsAre(1)) << "the second does not fit";
}

TEST_F(SchedulerTest, PatienceBeyondTheClockNeverEnds) {
  options_.low_priority_patience = absl::InfiniteDuration();
  JobRequest low = Job(1, "a", 10);
  low.priority = Priority::kLow;
  EXPECT_TRUE(Admit(low));
  now_ += std::chrono::hours(24);
  for (JobId id = 2; id <= 4; ++id) {
    EXPECT_TRUE(Admit(Job(id, "a", 10)));
  }
  EXPECT_THAT(RunAll(), ElementsAre(2, 3, 4, 1));
}

TEST_F(SchedulerTest, DeadlinesAtTheEndsOfTheClockAreNeitherMixedUpNorHopeless) {
  Record(100, std::chrono::milliseconds(100));
  EXPECT_TRUE(Admit(Job(1, "a", 100)));
  JobRequest far = Job(2, "a", 100);
  far.deadline = TimePoint::max() - std::chrono::nanoseconds(1);
  EXPECT_TRUE(Admit(far));
  JobRequest past = Job(3, "a", 100);
  past.deadline = TimePoint::min();
  EXPECT_EQ(scheduler().Admit(past, now_).refusal, Refusal::kDeadline);
  EXPECT_THAT(scheduler().Expire(now_), IsEmpty());
}

TEST_F(SchedulerTest, NoDeadlineIsRefusedOnEvidenceOfAnotherSizeOrTooLittleOfIt) {
  options_.max_batch_tokens = 10'000;
  const auto refuses = [this](JobId id) {
    JobRequest late = Job(id, "a", 1'000);
    late.deadline = now_ + std::chrono::milliseconds(10);
    return !Admit(late);
  };
  for (JobId id = 1; id <= 9; ++id) {
    Admit(Job(id, "a", 1'000));
  }
  Record(10, std::chrono::milliseconds(100), 500);
  EXPECT_FALSE(refuses(101)) << "small forwards cost more a token";
  Record(8'000, std::chrono::milliseconds(5'000), 500);
  EXPECT_FALSE(refuses(102)) << "eight times as large";
  Record(1'000, std::chrono::milliseconds(100), DrainRates::kMinSamples - 1);
  EXPECT_FALSE(refuses(103)) << "too few";
  Record(1'000, std::chrono::milliseconds(100), 1);
  EXPECT_TRUE(refuses(104));
  Record(10, std::chrono::milliseconds(1), DrainRates::kStaleAfterForwards);
  EXPECT_FALSE(refuses(105)) << "nothing was seen of this size for long";
}

TEST_F(SchedulerTest, MeasuredCostsAreEvidenceBeforeTheFirstForward) {
  const auto job = [](JobId id) {
    JobRequest request = Job(id, "a", 100);
    request.forecast_nanos = 50'000'000;
    return request;
  };
  for (JobId id = 1; id <= 9; ++id) {
    Admit(job(id));
  }
  JobRequest late = job(20);
  late.deadline = now_ + std::chrono::milliseconds(660);
  EXPECT_EQ(scheduler().Admit(late, now_).refusal, Refusal::kDeadline) << "500 ms of 660 x 0.75";
  late.deadline = now_ + std::chrono::milliseconds(670);
  EXPECT_TRUE(Admit(late));
  Record(100, std::chrono::milliseconds(1));
  late.id = 21;
  late.deadline = now_ + std::chrono::milliseconds(20);
  EXPECT_TRUE(Admit(late)) << "what was seen counts more than what was forecast";
}

// Shared forwards have the size of all that waits together.
TEST_F(SchedulerTest, SmallJobsThatRunTogetherAreNotJudgedByOneThatRanAlone) {
  options_.max_batch_tokens = 10'000;
  Record(10, std::chrono::milliseconds(10), 100);
  const auto refuses = [this](JobId id, const std::string& key) {
    JobRequest job = Job(id, "a", 10, key);
    job.deadline = now_ + std::chrono::milliseconds(500);
    return !Admit(job);
  };
  for (JobId id = 1; id <= 100; ++id) {
    EXPECT_FALSE(refuses(id, "key")) << id;
  }
  EXPECT_FALSE(refuses(201, "key"));
  // Each alone, they take a second.
  scheduler_ = nullptr;
  Record(10, std::chrono::milliseconds(10), 100);
  JobId refused = 0;
  for (JobId id = 1; id <= 100 && refused == 0; ++id) {
    refused = refuses(id, "") ? id : 0;
  }
  EXPECT_EQ(refused, 38) << "37 x 10 ms fit 500 ms x 0.75";
}

TEST_F(SchedulerTest, WhatNobodyWaitsForIsNotTaken) {
  JobRequest job = Job(1, "a", 10);
  job.deadline = now_ + microseconds(10);
  Admit(job);
  Admit(Job(2, "a", 10));
  Admit(Job(3, "a", 10));
  EXPECT_EQ(scheduler().next_deadline(), now_ + microseconds(10));
  EXPECT_THAT(scheduler().Expire(now_ + microseconds(9)), IsEmpty());
  now_ += microseconds(10);
  EXPECT_THAT(scheduler().Expire(now_), ElementsAre(1));
  EXPECT_TRUE(scheduler().Cancel(2));
  EXPECT_FALSE(scheduler().Cancel(2));
  EXPECT_THAT(Take(), ElementsAre(3));
  EXPECT_EQ(scheduler().next_deadline(), TimePoint::max());
}

}  // namespace
}  // namespace canopy
