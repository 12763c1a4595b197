// Admission of jobs: full queues, displaced jobs, deadlines and retry delays.
#include <chrono>
#include <optional>
#include <string>

#include "core/engine/testing/scheduler_case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::IsEmpty;

class SchedulerAdmissionTest : public SchedulerCase {};

TEST_F(SchedulerAdmissionTest, AFullQueueKeepsItsShareForEachClient) {
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

TEST_F(SchedulerAdmissionTest, ANormalJobTakesThePlaceOfALowOne) {
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

TEST_F(SchedulerAdmissionTest, TheTokenLimitCountsForwardsThatWereNotLaunched) {
  options_.max_queued_tokens = 100;
  EXPECT_TRUE(Admit(Job(1, "a", 300))) << "nothing else waits";
  EXPECT_EQ(scheduler().Admit(Job(2, "a", 1), now_).refusal, Refusal::kQueuedTokens);
  const ScheduledBatch batch = *scheduler().Take(now_);
  EXPECT_EQ(scheduler().queued_tokens(), 300) << "it may still come back";
  scheduler().Continue(1, 200);
  EXPECT_EQ(scheduler().queued_tokens(), 300);
  scheduler().Launch(batch);
  EXPECT_EQ(scheduler().queued_tokens(), 200) << "what runs does not wait";
  EXPECT_FALSE(Admit(Job(3, "a", 1))) << "parts of it still wait";
  const ScheduledBatch second = *scheduler().Take(now_);
  scheduler().Continue(1, 60);
  scheduler().Return(second);
  EXPECT_EQ(scheduler().queued_tokens(), 160) << "the part that was called off waits again";
  const ScheduledBatch again = *scheduler().Take(now_);
  scheduler().Continue(1, 60);
  scheduler().Launch(again);
  EXPECT_EQ(scheduler().queued_tokens(), 60);
  EXPECT_TRUE(Admit(Job(4, "b", 40))) << "though the last part of the first waits";
  EXPECT_FALSE(Admit(Job(5, "b", 1))) << "and nothing has to make room: the first has begun";
  EXPECT_TRUE(scheduler().Cancel(1));
  EXPECT_EQ(scheduler().queued_tokens(), 40);
}

TEST_F(SchedulerAdmissionTest, AJobLargerThanTheTokenLimitMayDisplaceTheOnlyOneThatWaits) {
  options_.max_queued_tokens = 100;
  JobRequest low = Job(1, "a", 50);
  low.priority = Priority::kLow;
  Admit(low);
  EXPECT_EQ(scheduler().Admit(Job(2, "a", 500), now_).displaced, JobId{1});
  EXPECT_EQ(scheduler().queued_tokens(), 500);
  // With another job beside the displaced one, the new job does not fit, and no job loses its
  // place.
  scheduler_ = nullptr;
  Admit(low);
  Admit(Job(3, "a", 10));
  const Scheduler::Admission admission = scheduler().Admit(Job(4, "a", 91), now_);
  EXPECT_EQ(admission.refusal, Refusal::kQueuedTokens);
  EXPECT_EQ(admission.displaced, std::nullopt);
  EXPECT_EQ(scheduler().Admit(Job(5, "a", 90), now_).displaced, JobId{1});
}

TEST_F(SchedulerAdmissionTest, RetryDelaysFollowTheDrainRate) {
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

TEST_F(SchedulerAdmissionTest, ForecastsFollowRecentForwards) {
  using Seconds = std::chrono::duration<double>;
  EXPECT_EQ(scheduler().Forecast(1), Seconds::max()) << "nothing is known yet";
  Record(100, std::chrono::milliseconds(50), 1);
  EXPECT_DOUBLE_EQ(scheduler().Forecast(300).count(), 0.150);
  Record(100, std::chrono::milliseconds(10), 200);
  EXPECT_NEAR(scheduler().Forecast(300).count(), 0.030, 0.001) << "the past fades";
}

TEST_F(SchedulerAdmissionTest, ADeadlineThatCannotBeMetIsRefused) {
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

TEST_F(SchedulerAdmissionTest, ExtremeDeadlinesKeepTheirOrderAndAreNotRefused) {
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

TEST_F(SchedulerAdmissionTest, NoJobIsRefusedForItsDeadlineWithoutEnoughSamplesOfItsSize) {
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

TEST_F(SchedulerAdmissionTest, MeasuredCostsAreEvidenceBeforeTheFirstForward) {
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

// A shared forward has the size of all work that waits together.
TEST_F(SchedulerAdmissionTest, TheRateOfALoneSmallJobDoesNotApplyToSharedForwards) {
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
  // Alone, each job takes a second.
  scheduler_ = nullptr;
  Record(10, std::chrono::milliseconds(10), 100);
  JobId refused = 0;
  for (JobId id = 1; id <= 100 && refused == 0; ++id) {
    refused = refuses(id, "") ? id : 0;
  }
  EXPECT_EQ(refused, 38) << "37 x 10 ms fit 500 ms x 0.75";
}

}  // namespace
}  // namespace canopy
