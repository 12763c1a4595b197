// Overload in simulated time: an engine is offered many times its capacity, then its capacity
// again, or a burst of a new kind. The scheduler has no clock of its own, so a minute takes
// milliseconds and the results are exact.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "core/engine/scheduler.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr microseconds kSecond{1'000'000};
constexpr microseconds kPatience{1'000'000};  // deadline of each request, unless stated
constexpr TimePoint kStart{std::chrono::seconds(100)};

struct Phase {
  int64_t offered = 0;
  int64_t refused = 0;
  int64_t answered = 0;       // in time
  double useful_seconds = 0;  // device time of answered requests
  int64_t late = 0;           // expired, or run although nobody waited any more
};

microseconds Micros(double micros) { return microseconds(static_cast<int64_t>(micros)); }

// The offered requests, and the time of the device for them.
struct Load {
  int clients = 1;
  int64_t max_batch_tokens = 100;
  std::function<microseconds(int64_t tokens)> forward_time;
  // returns a request with tokens, share key and forecast
  std::function<JobRequest(std::mt19937&)> draw;
};

// One device. Jobs run in the parts and batches that the scheduler chooses.
class Simulation {
 public:
  explicit Simulation(Load load) : load_(std::move(load)), scheduler_(Options(load_)) {}

  // Offers requests as a Poisson process for `duration`. A request counts in the phase in which it
  // arrives or ends.
  Phase Run(double rate, microseconds duration) {
    Phase phase;
    phase_ = &phase;
    const TimePoint end = now_ + duration;
    std::exponential_distribution<double> gap(rate);
    TimePoint arrival = now_ + Micros(gap(random_) * 1e6);
    while (arrival < end) {
      Advance(arrival);
      Offer(load_.draw(random_), kPatience);
      arrival += Micros(gap(random_) * 1e6);
    }
    Advance(end);
    phase_ = nullptr;
    return phase;
  }

  // Offers one request now. Returns whether it was admitted.
  bool Offer(JobRequest request, microseconds patience) {
    request.id = next_id_++;
    request.client = std::to_string(random_() % static_cast<uint32_t>(load_.clients));
    request.deadline = now_ + patience;
    const Scheduler::Admission admission = scheduler_.Admit(request, now_);
    if (phase_ != nullptr) {
      ++phase_->offered;
      phase_->refused += admission.refusal.has_value() ? 1 : 0;
    }
    if (admission.refusal.has_value()) {
      EXPECT_GT(admission.retry_delay, microseconds(0));
    } else {
      left_[request.id] = request.tokens;
      seconds_[request.id] = 0;
      tokens_[request.id] = request.tokens;
    }
    EXPECT_FALSE(admission.displaced.has_value()) << "nobody is greedy here";
    most_queued_ = std::max(most_queued_, scheduler_.queued_requests(Priority::kNormal));
    StartForward();
    return !admission.refusal.has_value();
  }

  // Lets the device work for `duration`, and returns what ended meanwhile.
  Phase Work(microseconds duration) {
    Phase phase;
    phase_ = &phase;
    Advance(now_ + duration);
    phase_ = nullptr;
    return phase;
  }

  int64_t most_queued() const { return most_queued_; }
  bool AllEnded() {
    Advance(now_ + 2 * kPatience);
    return scheduler_.idle();
  }

 private:
  static Scheduler::Options Options(const Load& load) {
    Scheduler::Options options;
    options.max_batch_tokens = load.max_batch_tokens;
    options.max_queued_requests = 1'000'000;
    return options;
  }

  // Lets the device work until `until`.
  void Advance(TimePoint until) {
    while (running_.has_value() && forward_ends_ <= until) {
      now_ = forward_ends_;
      Expire();
      const ScheduledBatch batch = *std::exchange(running_, std::nullopt);
      const std::chrono::duration<double> duration = load_.forward_time(batch.tokens);
      scheduler_.RecordForward(batch, duration);
      for (const JobId id : batch.jobs) {
        if (const auto seconds = seconds_.find(id); seconds != seconds_.end()) {
          seconds->second += duration.count() *
                             static_cast<double>(std::min(tokens_.at(id), batch.tokens)) /
                             static_cast<double>(batch.tokens);
        }
        if (const auto left = left_.find(id); left != left_.end() && left->second == 0) {
          scheduler_.Finish(id);
          if (phase_ != nullptr) {
            ++phase_->answered;
            phase_->useful_seconds += seconds_.at(id);
          }
          Forget(id);
        }
      }
      StartForward();
    }
    now_ = until;
    Expire();
    StartForward();
  }

  void Expire() {
    for (const JobId id : scheduler_.Expire(now_)) {
      Forget(id);
      if (phase_ != nullptr) {
        ++phase_->late;
      }
    }
  }

  void Forget(JobId id) {
    left_.erase(id);
    tokens_.erase(id);
    seconds_.erase(id);
  }

  void StartForward() {
    if (running_.has_value()) {
      return;
    }
    running_ = scheduler_.Take(now_);
    if (!running_.has_value()) {
      return;
    }
    for (const JobId id : running_->jobs) {
      int64_t& left = left_.at(id);
      left -= std::min(left, load_.max_batch_tokens);
      if (left > 0) {
        scheduler_.Continue(id, left);
      }
    }
    scheduler_.Launch(*running_);
    forward_ends_ = now_ + load_.forward_time(running_->tokens);
  }

  const Load load_;
  Scheduler scheduler_;
  std::mt19937 random_{20'261'130};
  TimePoint now_ = kStart;
  JobId next_id_ = 1;
  Phase* phase_ = nullptr;
  std::optional<ScheduledBatch> running_;
  TimePoint forward_ends_;
  std::map<JobId, int64_t> left_;  // tokens of jobs that have not ended which no forward has begun
  std::map<JobId, int64_t> tokens_;  // all tokens of these jobs ...
  std::map<JobId, double> seconds_;  // ... and the device time that they used
  int64_t most_queued_ = 0;
};

JobRequest Request(int64_t tokens, const std::string& share_key = "") {
  JobRequest request;
  request.tokens = tokens;
  request.share_key = share_key;
  return request;
}

// The device runs 200 forwards per second, with one request each.
Load Paced(int clients) {
  Load load;
  load.clients = clients;
  load.forward_time = [](int64_t) { return microseconds(5'000); };
  load.draw = [](std::mt19937&) { return Request(100); };
  return load;
}

// A model of a GPU: most of a small forward is overhead.
microseconds OverheadAndTokens(int64_t tokens) {
  return microseconds(5'000) + Micros(6 * static_cast<double>(tokens));
}

TEST(OverloadTest, GoodputHoldsAndTheLoadIsForgottenWithinTwoSeconds) {
  constexpr double kCapacity = 200;  // requests per second
  for (const int clients : {1, 8, 64}) {
    for (const double factor : {2.0, 5.0, 10.0}) {
      SCOPED_TRACE(std::to_string(clients) + " clients, " + std::to_string(factor) + " times");
      Simulation simulation(Paced(clients));
      const Phase normal = simulation.Run(0.8 * kCapacity, 10 * kSecond);
      EXPECT_EQ(normal.refused + normal.late, 0);
      const Phase overload = simulation.Run(factor * kCapacity, 60 * kSecond);
      EXPECT_GE(static_cast<double>(overload.answered), 0.9 * kCapacity * 60);
      EXPECT_LE(static_cast<double>(overload.late), 0.1 * kCapacity * 60);
      // The waiting requests fit the deadline, whatever the rate.
      EXPECT_LE(static_cast<double>(simulation.most_queued()), kCapacity);
      simulation.Run(0.8 * kCapacity, 2 * kSecond);
      const Phase after = simulation.Run(0.8 * kCapacity, 20 * kSecond);
      EXPECT_LE(static_cast<double>(after.refused + after.late),
                0.01 * static_cast<double>(after.offered));
      EXPECT_TRUE(simulation.AllEnded());
    }
  }
}

// A forward takes as much of the waiting work as has the same share key and does not change the
// order of a client's requests.
TEST(OverloadTest, TheDeviceStaysUsefulIfRequestsShareForwards) {
  for (const bool has_forecasts : {true, false}) {
    for (const int keys : {1, 3}) {
      for (const double factor : {2.0, 10.0}) {
        SCOPED_TRACE(std::to_string(keys) + " keys, " + std::to_string(factor) +
                     " times, forecasts " + std::to_string(has_forecasts));
        Load load;
        load.clients = 16;
        load.max_batch_tokens = 16'384;
        load.forward_time = OverheadAndTokens;
        load.draw = [keys, has_forecasts](std::mt19937& random) {
          JobRequest request =
              Request(100 + random() % 200, "key" + std::to_string(random() % keys));
          request.forecast_nanos = has_forecasts ? 6'000 * request.tokens : 0;
          return request;
        };
        const double capacity = keys == 1 ? 790 : 600;  // requests per second
        Simulation simulation(load);
        const Phase normal = simulation.Run(0.5 * capacity, 5 * kSecond);
        EXPECT_EQ(normal.refused + normal.late, 0);
        const Phase overload = simulation.Run(factor * capacity, 10 * kSecond);
        EXPECT_GE(overload.useful_seconds, 0.9 * 10);
        simulation.Run(0.5 * capacity, 2 * kSecond);
        const Phase after = simulation.Run(0.5 * capacity, 5 * kSecond);
        EXPECT_EQ(after.refused + after.late, 0);
        EXPECT_TRUE(simulation.AllEnded());
      }
    }
  }
}

// Some large requests begin in vain, because later requests share the device with them. The waste
// is not larger than with one rate for all sizes (0.56, 0.89 and 0.97 of the device time was
// useful).
TEST(OverloadTest, MostDeviceTimeIsUsefulIfSizesAreMixed) {
  const std::map<double, double> min_use = {{2, 0.5}, {5, 0.85}, {10, 0.95}};
  for (const auto& [factor, use] : min_use) {
    SCOPED_TRACE(std::to_string(factor) + " times");
    Load load;
    load.clients = 16;
    load.max_batch_tokens = 16'384;
    load.forward_time = OverheadAndTokens;
    load.draw = [](std::mt19937& random) {
      constexpr int64_t kSizes[] = {30, 500, 2'500, 9'000, 40'000};
      return Request(kSizes[random() % 5]);
    };
    constexpr double kCapacity = 13;  // requests per second, at 74 ms each
    Simulation simulation(load);
    simulation.Run(0.5 * kCapacity, 20 * kSecond);
    const Phase overload = simulation.Run(factor * kCapacity, 60 * kSecond);
    EXPECT_GE(overload.useful_seconds, use * 60);
  }
}

// With one rate for all sizes, a single tiny request would have kept all of these out.
TEST(OverloadTest, TheFirstBurstOfLargeRequestsIsAdmittedDespiteSlowSmallOnes) {
  for (const int tiny_before : {1, 3, 100, 2'000}) {
    for (const std::string key : {"", "key"}) {
      SCOPED_TRACE(std::to_string(tiny_before) + " tiny ones before, key '" + key + "'");
      Load load;
      load.clients = 8;
      load.max_batch_tokens = 65'536;
      load.forward_time = [](int64_t tokens) {
        return microseconds(5'000) + Micros(0.5 * static_cast<double>(tokens));
      };
      Simulation simulation(load);
      for (int i = 0; i < tiny_before; ++i) {
        ASSERT_TRUE(simulation.Offer(Request(28, key), kPatience));
        ASSERT_EQ(simulation.Work(microseconds(10'000)).answered, 1);
      }
      // Each request takes 90 ms; all of them take 0.72 s.
      for (int i = 0; i < 8; ++i) {
        EXPECT_TRUE(simulation.Offer(Request(163'840, key), 3 * kSecond)) << i;
      }
      const Phase phase = simulation.Work(kSecond);
      EXPECT_EQ(phase.answered, 8);
      EXPECT_EQ(phase.late, 0);
    }
  }
}

// After similar requests have run, or if costs were measured, the same burst is refused early.
TEST(OverloadTest, LargeRequestsAreRefusedEarlyOnEvidence) {
  for (const bool by_costs : {false, true}) {
    SCOPED_TRACE(by_costs ? "by measured costs" : "by forwards of like size");
    Load load;
    load.max_batch_tokens = 65'536;
    load.forward_time = [](int64_t tokens) {
      return microseconds(5'000) + Micros(0.5 * static_cast<double>(tokens));
    };
    Simulation simulation(load);
    JobRequest large = Request(163'840);
    if (by_costs) {
      large.forecast_nanos = 163'840 * 500;
    } else {
      ASSERT_TRUE(simulation.Offer(large, kPatience));
      ASSERT_TRUE(simulation.Offer(large, kPatience));
      ASSERT_EQ(simulation.Work(kSecond).answered, 2);
    }
    int64_t accepted = 0;
    for (int i = 0; i < 100; ++i) {
      accepted += simulation.Offer(large, kPatience) ? 1 : 0;
    }
    EXPECT_GE(accepted, 7);
    EXPECT_LE(accepted, 10) << "a second is 10.3 of them";
    EXPECT_EQ(simulation.Work(2 * kSecond).answered, accepted);
  }
}

}  // namespace
}  // namespace canopy
