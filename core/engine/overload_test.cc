// Overload in simulated time: an engine that runs 200 requests a second is offered many times that,
// and then what it can do again. The scheduler has no clock of its own, so that a minute takes
// milliseconds and what is measured is exact.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "core/engine/scheduler.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr double kCapacity = 200;  // requests a second
constexpr microseconds kForward{5'000};
constexpr microseconds kSecond{1'000'000};
constexpr microseconds kPatience{1'000'000};  // deadline of each request
constexpr int64_t kTokens = 100;
constexpr TimePoint kStart{std::chrono::seconds(100)};

struct Phase {
  int64_t offered = 0;
  int64_t refused = 0;
  int64_t answered = 0;  // in time
  int64_t late = 0;      // expired, or run though nobody waits any more
};

// One device, one request a forward, Poisson arrivals from several clients.
class Simulation {
 public:
  explicit Simulation(int clients) : scheduler_(Options()), clients_(clients) {}

  // Requests that arrive within `duration`; counted in the phase in which they arrive.
  Phase Run(double rate, microseconds duration) {
    Phase phase;
    phase_ = &phase;
    const TimePoint end = now_ + duration;
    std::exponential_distribution<double> gap(rate);
    TimePoint arrival = now_ + Gap(gap(random_));
    while (arrival < end) {
      Advance(arrival);
      Arrive();
      arrival += Gap(gap(random_));
    }
    Advance(end);
    phase_ = nullptr;
    return phase;
  }

  int64_t most_queued() const { return most_queued_; }
  bool AllEnded() {
    Advance(now_ + 2 * kPatience);
    return scheduler_.idle();
  }

 private:
  static Scheduler::Options Options() {
    Scheduler::Options options;
    options.max_batch_tokens = kTokens;
    return options;
  }

  static microseconds Gap(double seconds) {
    return microseconds(static_cast<int64_t>(seconds * 1e6));
  }

  void Arrive() {
    JobRequest request;
    request.id = next_id_++;
    request.client = std::to_string(random_() % static_cast<uint32_t>(clients_));
    request.tokens = request.input_tokens = kTokens;
    request.deadline = now_ + kPatience;
    ++phase_->offered;
    const Scheduler::Admission admission = scheduler_.Admit(request, now_);
    if (admission.refusal.has_value()) {
      ++phase_->refused;
      EXPECT_GT(admission.retry_delay, microseconds(0));
    }
    EXPECT_FALSE(admission.displaced.has_value()) << "nobody is greedy here";
    most_queued_ = std::max(most_queued_, scheduler_.queued_requests(Priority::kNormal));
    StartForward();
  }

  // Lets the device work until `until`.
  void Advance(TimePoint until) {
    while (running_.has_value() && forward_ends_ <= until) {
      now_ = forward_ends_;
      Expire();
      const JobId id = running_->jobs.front();
      scheduler_.RecordForward(kTokens, kForward);
      running_.reset();
      if (!std::exchange(expired_on_device_, false)) {
        scheduler_.Finish(id);
        if (phase_ != nullptr) {
          ++phase_->answered;
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
      if (running_.has_value() && running_->jobs.front() == id) {
        expired_on_device_ = true;
      }
      if (phase_ != nullptr) {
        ++phase_->late;
      }
    }
  }

  void StartForward() {
    if (running_.has_value()) {
      return;
    }
    running_ = scheduler_.Take(now_);
    if (running_.has_value()) {
      scheduler_.Launch(*running_);
      forward_ends_ = now_ + kForward;
    }
  }

  Scheduler scheduler_;
  const int clients_;
  std::mt19937 random_{20'261'130};
  TimePoint now_ = kStart;
  JobId next_id_ = 1;
  Phase* phase_ = nullptr;
  std::optional<Turn> running_;
  TimePoint forward_ends_;
  bool expired_on_device_ = false;  // its deadline passed while it ran
  int64_t most_queued_ = 0;
};

TEST(OverloadTest, GoodputHoldsAndTheLoadIsForgottenWithinTwoSeconds) {
  for (const int clients : {1, 8, 64}) {
    for (const double factor : {2.0, 5.0, 10.0}) {
      SCOPED_TRACE(std::to_string(clients) + " clients, " + std::to_string(factor) + " times");
      Simulation simulation(clients);
      const Phase normal = simulation.Run(0.8 * kCapacity, 10 * kSecond);
      EXPECT_EQ(normal.refused + normal.late, 0);
      const Phase overload = simulation.Run(factor * kCapacity, 60 * kSecond);
      EXPECT_GE(static_cast<double>(overload.answered), 0.9 * kCapacity * 60);
      EXPECT_LE(static_cast<double>(overload.late), 0.1 * kCapacity * 60);
      // The rest waits: less than the deadline allows, however much comes.
      EXPECT_LE(static_cast<double>(simulation.most_queued()), kCapacity);
      simulation.Run(0.8 * kCapacity, 2 * kSecond);
      const Phase after = simulation.Run(0.8 * kCapacity, 20 * kSecond);
      EXPECT_LE(static_cast<double>(after.refused + after.late),
                0.01 * static_cast<double>(after.offered));
      EXPECT_TRUE(simulation.AllEnded());
    }
  }
}

}  // namespace
}  // namespace canopy
