#include "core/engine/scheduler.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/engine/testing/scheduler_case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SchedulerTest : public SchedulerCase {};

TEST_F(SchedulerTest, OneClientIsServedInOrder) {
  for (JobId id = 1; id <= 5; ++id) {
    EXPECT_TRUE(Admit(Job(id, "a", 10 * static_cast<int64_t>(id))));
  }
  EXPECT_THAT(RunAll(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(SchedulerTest, ClientsAreServedInEqualTokens) {
  // Neither ten times as many jobs nor larger jobs get a client more tokens.
  for (JobId id = 0; id < 400; ++id) {
    Admit(Job(1'000 + id, "greedy", 10));
  }
  for (JobId id = 0; id < 40; ++id) {
    Admit(Job(2'000 + id, "modest", 10));
    Admit(Job(3'000 + id, "large", 40));
  }
  std::map<JobId, int64_t> served;
  while (const std::optional<ScheduledBatch> batch = scheduler().Take(now_)) {
    served[batch->jobs.front() / 1'000] += batch->tokens;
    if (served[2] == 400) {
      break;
    }
    EXPECT_LE(std::abs(served[1] - served[2]), 10);
    EXPECT_LE(std::abs(served[1] - served[3]), 40);
  }
}

TEST_F(SchedulerTest, AnAbsentClientDoesNotSaveUpService) {
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

// Clients that share forwards with each other lead a client that cannot share by at most two
// batches.
TEST_F(SchedulerTest, SharingDoesNotStarveJobsThatRunAlone) {
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
    const ScheduledBatch batch = *scheduler().Take(now_);
    for (const JobId id : batch.jobs) {
      served[client_of[id]] += tokens_of[id];
      --waiting[client_of[id]];
      scheduler().Finish(id);
    }
    for (const auto& [client, tokens] : served) {
      ASSERT_LE(tokens - served["alone"], 200) << client << ", round " << round;
    }
  }
}

// The large jobs of one client join every forward of a client with small jobs.
TEST_F(SchedulerTest, AClientThatJoinsEveryForwardDoesNotRunAhead) {
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
    const ScheduledBatch batch = *scheduler().Take(now_);
    for (const JobId id : batch.jobs) {
      const bool is_rider = id % 3 == 0;
      const std::string client = is_rider ? "rider" : id % 3 == 1 ? "host" : "alone";
      served[client] += is_rider ? 45 : 5;
      scheduler().Finish(id);
      refill(client, is_rider ? 45 : 5, client == "alone" ? "" : "key");
    }
    ASSERT_LE(served["rider"] - served["alone"], 200) << "round " << round;
  }
}

TEST_F(SchedulerTest, AJobThatArrivesDuringAPartDoesNotWaitForTheNextPart) {
  Admit(Job(1, "large", 400));
  for (int part = 0; part < 2; ++part) {
    const ScheduledBatch running = *scheduler().Take(now_);
    scheduler().Continue(1, 300 - 100 * part);
    scheduler().Launch(running);
    const ScheduledBatch planned = *scheduler().Take(now_);
    ASSERT_THAT(planned.jobs, ElementsAre(1));
    const JobId first = 2 + 2 * part;
    Admit(Job(first, "first" + std::to_string(part), 5));
    ASSERT_TRUE(scheduler().WouldChange(planned, first));
    scheduler().Return(planned);
    const ScheduledBatch small = *scheduler().Take(now_);
    ASSERT_THAT(small.jobs, ElementsAre(first));
    // The part has let others go first once already.
    Admit(Job(first + 1, "second" + std::to_string(part), 5));
    scheduler().Launch(small);
    const ScheduledBatch next = *scheduler().Take(now_);
    EXPECT_THAT(next.jobs, ElementsAre(first + 1));
    scheduler().Launch(next);
  }
}

TEST_F(SchedulerTest, SmallJobsRunBetweenThePartsOfALargeOne) {
  Admit(Job(1, "a", 300));
  ScheduledBatch part = *scheduler().Take(now_);
  EXPECT_EQ(part.tokens, 100);
  scheduler().Continue(1, 200);
  scheduler().Launch(part);
  Admit(Job(2, "a", 5));  // of the same client
  Admit(Job(3, "b", 5));  // of another client
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
  const ScheduledBatch part = *scheduler().Take(now_);
  EXPECT_THAT(part.jobs, ElementsAre(2));
  scheduler().Launch(part);
  Admit(Job(4, "a", 5));
  EXPECT_THAT(Take(), ElementsAre(4)) << "the third has not let anybody go first yet";
}

TEST_F(SchedulerTest, APlannedPartYieldsToASmallJobOnce) {
  Admit(Job(1, "a", 300));
  scheduler().Launch(*scheduler().Take(now_));
  scheduler().Continue(1, 200);
  ScheduledBatch planned = *scheduler().Take(now_);
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
    const ScheduledBatch planned = *scheduler().Take(now_);
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
  const ScheduledBatch planned = *scheduler().Take(now_);
  Admit(Job(2, "b", 40, "k"));
  Admit(Job(3, "b", 40, "other"));
  Admit(Job(4, "b", 70, "k"));
  EXPECT_TRUE(scheduler().WouldChange(planned, 2));
  EXPECT_FALSE(scheduler().WouldChange(planned, 3));
  EXPECT_FALSE(scheduler().WouldChange(planned, 4)) << "does not fit";
  scheduler().Return(planned);
  EXPECT_THAT(Take(), ElementsAre(1, 2));
}

TEST_F(SchedulerTest, OnlyJobsWithTheSameKeyRunTogether) {
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

TEST_F(SchedulerTest, AForwardThatComputesMoreThanEstimatedIsCharged) {
  Admit(Job(1, "a", 10));
  Admit(Job(2, "a", 10));
  Admit(Job(3, "b", 10));
  Admit(Job(4, "b", 10));
  const ScheduledBatch batch = *scheduler().Take(now_);
  ASSERT_THAT(batch.jobs, ElementsAre(1));
  // no refund: a poor estimate must not give a client more service
  scheduler().AdjustTokens(batch, 5);
  scheduler().AdjustTokens(batch, 25);
  EXPECT_EQ(batch.tokens, 10) << "forecasts stay in the unit of estimates";
  scheduler().Launch(batch);
  EXPECT_THAT(RunAll(), ElementsAre(3, 4, 2)) << "b has had 20 when a has had 25";
}

TEST_F(SchedulerTest, AnAdjustmentIsRefundedWithItsBatch) {
  Admit(Job(1, "a", 10));
  Admit(Job(2, "b", 10));
  Admit(Job(3, "b", 10));
  const ScheduledBatch batch = *scheduler().Take(now_);
  ASSERT_THAT(batch.jobs, ElementsAre(1));
  scheduler().AdjustTokens(batch, 25);
  scheduler().Return(batch);
  EXPECT_EQ(scheduler().queued_tokens(), 30);
  EXPECT_THAT(RunAll(), ElementsAre(1, 2, 3));
}

// The forwards of a device with little memory are smaller than a batch.
TEST_F(SchedulerTest, AJobInSmallPartsIsChargedAndCountedByItsTokens) {
  Admit(Job(1, "a", 80, "key"));
  int64_t charged = 0;
  for (int64_t left = 70; left >= 0; left -= 10) {
    ScheduledBatch batch = *scheduler().Take(now_);
    ASSERT_THAT(batch.jobs, ElementsAre(1));
    scheduler().AdjustToPart(&batch, 10);
    if (left > 0) {
      scheduler().Continue(1, left, 10);
    }
    EXPECT_EQ(scheduler().queued_tokens(), left + 10);
    EXPECT_EQ(batch.tokens, 10);
    EXPECT_EQ(batch.size_tokens, 10) << "as what its time is recorded";
    EXPECT_EQ(batch.share_key, "") << "nobody joins a part";
    charged += batch.tokens;
    scheduler().Launch(batch);
    EXPECT_EQ(scheduler().queued_tokens(), left);
  }
  EXPECT_EQ(charged, 80);
  EXPECT_THAT(Take(), IsEmpty());
}

// Each client has 8 forwards of 10 tokens; one client has them as the parts of one job.
TEST_F(SchedulerTest, SmallPartsAlternateWithJobsOfTheirSize) {
  Admit(Job(1, "parts", 80));
  for (JobId id = 2; id <= 9; ++id) {
    Admit(Job(id, "whole", 10));
  }
  int64_t left = 80;
  int64_t parts = 0;
  int64_t whole = 0;
  while (std::optional<ScheduledBatch> batch = scheduler().Take(now_)) {
    if (batch->jobs.front() == 1) {
      left -= 10;
      ++parts;
      scheduler().AdjustToPart(&*batch, 10);
      if (left > 0) {
        scheduler().Continue(1, left, 10);
      }
    } else {
      ++whole;
    }
    scheduler().Launch(*batch);
    EXPECT_LE(std::abs(parts - whole), 1);
  }
  EXPECT_EQ(parts, 8);
  EXPECT_EQ(whole, 8);
}

TEST_F(SchedulerTest, AReturnedPartIsRefundedAndCountsAsBefore) {
  Admit(Job(1, "a", 80, "key"));
  ScheduledBatch batch = *scheduler().Take(now_);
  scheduler().AdjustToPart(&batch, 10);
  scheduler().Continue(1, 70, 10);
  scheduler().Return(batch);
  EXPECT_EQ(scheduler().queued_tokens(), 80);
  Admit(Job(2, "b", 10));
  const ScheduledBatch again = *scheduler().Take(now_);
  EXPECT_THAT(again.jobs, ElementsAre(1)) << "what was called off was not charged";
  EXPECT_EQ(again.tokens, 10);
  scheduler().Launch(again);
}

// The estimate lets the job share forwards, but it needs several.
TEST_F(SchedulerTest, AJobThatNeedsPartsYieldsAndNoLongerShares) {
  Admit(Job(1, "a", 80, "key"));
  ScheduledBatch batch = *scheduler().Take(now_);
  scheduler().AdjustToPart(&batch, 20);
  scheduler().Continue(1, 60, 20);
  scheduler().Launch(batch);
  Admit(Job(2, "a", 5));
  EXPECT_THAT(Take(), ElementsAre(2)) << "a part lets its client's whole jobs go first";
  Admit(Job(3, "b", 30, "key"));
  const ScheduledBatch shared = *scheduler().Take(now_);
  EXPECT_THAT(shared.jobs, ElementsAre(3));
  EXPECT_EQ(shared.size_tokens, 30) << "the parts of the first are not in the batch";
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

TEST_F(SchedulerTest, JobsThatNobodyWaitsForAreNotTaken) {
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
