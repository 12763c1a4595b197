// A scheduler and a clock, for tests of admission and order.
#ifndef CORE_ENGINE_TESTING_SCHEDULER_CASE_H_
#define CORE_ENGINE_TESTING_SCHEDULER_CASE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/scheduler.h"
#include "gtest/gtest.h"

namespace canopy {

inline constexpr TimePoint kStart{std::chrono::seconds(100)};

inline JobRequest Job(JobId id, const std::string& client, int64_t tokens,
                      const std::string& share_key = "") {
  JobRequest request;
  request.id = id;
  request.client = client;
  request.share_key = share_key;
  request.tokens = tokens;
  return request;
}

class SchedulerCase : public ::testing::Test {
 protected:
  SchedulerCase() {
    options_.max_batch_tokens = 100;
    options_.max_queued_requests = 1'000;
  }

  Scheduler& scheduler() {
    if (scheduler_ == nullptr) {
      scheduler_ = std::make_unique<Scheduler>(options_);
    }
    return *scheduler_;
  }

  // Records as many forwards of one size as evidence requires.
  void Record(int64_t tokens, std::chrono::duration<double> duration,
              int64_t forwards = DrainRates::kMinSamples) {
    ScheduledBatch batch;
    batch.tokens = batch.size_tokens = tokens;
    for (int64_t i = 0; i < forwards; ++i) {
      scheduler().RecordForward(batch, duration);
    }
  }

  bool Admit(const JobRequest& request) {
    return !scheduler().Admit(request, now_).refusal.has_value();
  }

  std::vector<JobId> Take() {
    const std::optional<ScheduledBatch> batch = scheduler().Take(now_);
    return batch.has_value() ? batch->jobs : std::vector<JobId>{};
  }

  // Takes and launches until no job waits. Returns the first job of each batch.
  std::vector<JobId> RunAll() {
    std::vector<JobId> order;
    while (const std::optional<ScheduledBatch> batch = scheduler().Take(now_)) {
      order.push_back(batch->jobs.front());
      scheduler().Launch(*batch);
    }
    return order;
  }

  Scheduler::Options options_;
  std::unique_ptr<Scheduler> scheduler_;
  TimePoint now_ = kStart;
};

}  // namespace canopy

#endif  // CORE_ENGINE_TESTING_SCHEDULER_CASE_H_
