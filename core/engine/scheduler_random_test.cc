// A fake engine and a fake clock drive the scheduler through random interleavings. A plain model of
// every job, which knows only the header's promises, checks each step.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/engine/scheduler.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kBatchTokens = 8;
constexpr int64_t kBatchBytes = 20;
constexpr int64_t kMaxRequests = 4;
constexpr int64_t kMaxTokens = 30;
constexpr int kClients = 3;
constexpr microseconds kPatience{12};

enum class State { kWaiting, kTaken, kRunning, kEnded };

struct ModelJob {
  JobRequest request;
  TimePoint arrival;
  State state = State::kWaiting;
  int64_t remaining = 0;        // of forwards that were not taken
  int64_t taken = 0;            // taken by the last batch
  int64_t part = kBatchTokens;  // the most in one forward
  bool in_parts = false;        // Continue was called
  int forwards_left = 1;
  bool more_waits = false;  // the next part waits while this one is in a batch
  bool in_order = true;     // runs in one forward, and goes before later jobs of its client
  bool counted = true;
  bool begun = false;

  bool waits() const { return state == State::kWaiting || more_waits; }
  int64_t next_tokens() const { return std::min(remaining, part); }
  // Returns the tokens that count against the limit: those of forwards that were not launched.
  int64_t counted_tokens() const {
    const bool part_in_batch = state == State::kTaken && more_waits;
    return counted ? remaining + (part_in_batch ? taken : 0) : 0;
  }
};

// One engine with one device, a planned batch and a running one.
class Episode {
 public:
  Episode(uint32_t seed, int steps) : random_(seed), scheduler_(RandomOptions()) {
    for (int step = 0; step < steps && error_.empty(); ++step) {
      Step();
      CheckCounts();
    }
    Finish();
  }

  const std::string& error() const { return error_; }
  int64_t launched() const { return launched_; }
  int64_t truncated() const { return truncated_; }
  int64_t small_parts() const { return small_parts_; }

 private:
  int64_t Draw(int64_t below) { return static_cast<int64_t>(random_() % below); }

  Scheduler::Options RandomOptions() {
    options_.max_batch_tokens = kBatchTokens;
    options_.max_batch_bytes = kBatchBytes;
    options_.max_queued_requests = kMaxRequests;
    options_.max_queued_tokens = kMaxTokens;
    options_.batch_window = absl::Microseconds(Draw(4) == 0 ? 3 : 0);
    options_.low_priority_patience = absl::FromChrono(kPatience);
    return options_;
  }

  void Expect(bool holds, const char* what) {
    if (!holds && error_.empty()) {
      error_ = what;
    }
  }

  void Step() {
    const int64_t choice = Draw(16);
    if (choice < 6) {
      Admit();
    } else if (choice < 9) {
      Plan();
    } else if (choice < 11) {
      Launch();
    } else if (choice < 13) {
      Complete();
    } else if (choice == 13) {
      ReturnPlanned();
    } else if (choice == 14) {
      CancelOne();
    } else {
      now_ += microseconds(1 + Draw(6));
      Expire();
    }
  }

  JobRequest RandomRequest() {
    static const char* const kNames[kClients] = {"a", "b", "c"};
    static const char* const kKeys[] = {"", "x", "x", "y"};
    JobRequest request;
    request.id = next_id_++;
    request.client = kNames[Draw(kClients)];
    request.share_key = kKeys[Draw(4)];
    request.priority = Draw(4) == 0 ? Priority::kLow : Priority::kNormal;
    request.tokens = Draw(5) == 0 ? 1 + Draw(3 * kBatchTokens) : 1 + Draw(4);
    if (Draw(20) == 0) {
      request.tokens += Draw(2 * kMaxTokens);
    }
    request.device_bytes = Draw(8);
    if (Draw(3) == 0) {
      request.deadline = now_ + microseconds(1 + Draw(30));
    }
    return request;
  }

  void Admit() {
    const JobRequest request = RandomRequest();
    const int64_t requests_before = CountedRequests();
    const int64_t tokens_before = CountedTokens();
    const std::optional<JobId> displaced = FindDisplacedByLinearSearch(request);
    const Scheduler::Admission admission = scheduler_.Admit(request, now_);
    Expect(admission.refusal == Refusal::kDeadline || admission.displaced == displaced,
           "displaced another job than a linear search finds");
    if (admission.refusal.has_value()) {
      ++refused_;
      Expect(!admission.displaced.has_value(), "refused and displaced at once");
      Expect(admission.retry_delay > microseconds(0), "a refusal without a delay");
      Expect(*admission.refusal != Refusal::kQueuedRequests || requests_before >= kMaxRequests,
             "refused below the request limit");
      Expect(*admission.refusal != Refusal::kQueuedTokens ||
                 tokens_before + request.tokens > kMaxTokens,
             "refused below the token limit");
      Expect(*admission.refusal != Refusal::kDeadline ||
                 (request.deadline != TimePoint::max() && AnyWaits() &&
                  recorded_ >= DrainRates::kMinSamples),
             "refused for its deadline without need");
      return;
    }
    ++accepted_;
    ModelJob job;
    job.request = request;
    job.arrival = now_;
    job.remaining = request.tokens;
    job.in_order = request.tokens <= kBatchTokens;
    job.forwards_left = static_cast<int>((request.tokens + kBatchTokens - 1) / kBatchTokens);
    if (admission.displaced.has_value()) {
      const auto displaced = jobs_.find(*admission.displaced);
      Expect(displaced != jobs_.end() && displaced->second.state == State::kWaiting &&
                 !displaced->second.begun && displaced->second.counted,
             "displaced a job that does not merely wait");
      Expect(requests_before >= kMaxRequests || tokens_before + request.tokens > kMaxTokens,
             "displaced a job while there is room");
      if (displaced != jobs_.end()) {
        CheckDisplaced(displaced->second, request);
      }
      End(*admission.displaced);
      ++displaced_;
    }
    jobs_[request.id] = job;
  }

  // Finds the job that makes room by the definition, one job after the other.
  std::optional<JobId> FindDisplacedByLinearSearch(const JobRequest& request) const {
    const bool too_many = CountedRequests() >= kMaxRequests;
    const int64_t tokens = CountedTokens();
    if (!too_many && (tokens == 0 || tokens + request.tokens <= kMaxTokens)) {
      return std::nullopt;
    }
    const auto held_by = [&](const std::string& client) {
      int64_t held = 0;
      for (const auto& [id, job] : jobs_) {
        if (job.counted && job.request.client == client) {
          held += too_many ? 1 : job.counted_tokens();
        }
      }
      return held;
    };
    const int64_t own_held = held_by(request.client) + (too_many ? 1 : request.tokens);
    using Rank = std::tuple<bool, int64_t, TimePoint, JobId>;
    std::optional<Rank> displaced;
    for (const auto& [id, job] : jobs_) {
      const bool is_lower = job.request.priority > request.priority;
      if (job.state != State::kWaiting || job.begun || job.request.priority < request.priority) {
        continue;
      }
      const int64_t held = held_by(job.request.client);
      if (is_lower || held > own_held) {
        const Rank rank(is_lower, held, job.arrival, id);
        displaced = displaced.has_value() ? std::max(*displaced, rank) : rank;
      }
    }
    if (!displaced.has_value()) {
      return std::nullopt;
    }
    const JobId id = std::get<JobId>(*displaced);
    const int64_t others = tokens - jobs_.at(id).counted_tokens();
    return others == 0 || others + request.tokens <= kMaxTokens ? std::make_optional(id)
                                                                : std::nullopt;
  }

  void CheckDisplaced(const ModelJob& displaced, const JobRequest& request) {
    Expect(displaced.request.priority >= request.priority, "displaced a job of higher priority");
    Expect(displaced.request.priority != request.priority ||
               displaced.request.client != request.client,
           "displaced a job of the same client");
  }

  void Plan() {
    if (has_planned_) {
      return;
    }
    std::optional<ScheduledBatch> batch = scheduler_.Take(now_);
    if (!batch.has_value()) {
      Expect(
          !AnyWaits() ||
              (options_.batch_window > absl::ZeroDuration() && scheduler_.held_until() > now_ &&
               scheduler_.held_until() <= now_ + absl::ToChronoMicroseconds(options_.batch_window)),
          "nothing to take although a job waits");
      return;
    }
    CheckBatch(*batch);
    if (batch->jobs.size() > 1 && Draw(3) == 0) {
      Truncate(&*batch);
    }
    planned_ = *batch;
    has_planned_ = true;
    for (const JobId id : batch->jobs) {
      ModelJob& job = jobs_[id];
      job.state = State::kTaken;
      job.taken = job.next_tokens();
    }
    if (batch->jobs.size() == 1 && Draw(4) == 0 && PlanSmallPart(batch->jobs.front())) {
      return;
    }
    // The engine plans now. A job whose next part is known waits for it at once.
    for (const JobId id : batch->jobs) {
      ModelJob& job = jobs_[id];
      if (job.forwards_left > 1 && job.remaining > job.taken && Draw(4) != 0) {
        job.remaining = std::max<int64_t>(job.remaining - kBatchTokens, 1);
        job.more_waits = true;
        job.in_order = false;
        job.in_parts = true;
        job.part = kBatchTokens;
        scheduler_.Continue(id, job.remaining);
      }
    }
  }

  // A limit cuts the taken job into parts that are smaller than estimated. Returns false if the job
  // has too few tokens.
  bool PlanSmallPart(JobId id) {
    ModelJob& job = jobs_[id];
    const int64_t part = 1 + Draw(job.taken);
    if (part >= job.remaining) {
      return false;
    }
    scheduler_.AdjustToPart(&planned_, part);
    Expect(planned_.tokens == part && planned_.size_tokens == part && planned_.share_key.empty(),
           "a batch that became a part");
    job.taken = part;
    job.part = part;
    job.remaining -= part;
    job.forwards_left = std::max(job.forwards_left, 2);
    job.more_waits = true;
    job.in_order = false;
    job.in_parts = true;
    scheduler_.Continue(id, job.remaining, part);
    ++small_parts_;
    return true;
  }

  // The jobs that are left out wait as before.
  void Truncate(ScheduledBatch* batch) {
    std::vector<JobId> jobs = batch->jobs;
    const int64_t left_out = 1 + Draw(static_cast<int64_t>(jobs.size()) - 1);
    jobs.resize(jobs.size() - static_cast<size_t>(left_out));
    scheduler_.Truncate(batch, jobs.size());
    ++truncated_;
    int64_t tokens = 0;
    int64_t bytes = 0;
    for (const JobId id : jobs) {
      tokens += jobs_[id].remaining;
      bytes += jobs_[id].request.device_bytes;
    }
    Expect(batch->jobs == jobs && batch->tokens == tokens && batch->device_bytes == bytes &&
               batch->share_key.empty(),
           "what is left of a truncated batch");
  }

  void CheckBatch(const ScheduledBatch& batch) {
    Expect(!batch.jobs.empty(), "an empty batch");
    int64_t tokens = 0;
    int64_t bytes = 0;
    for (const JobId id : batch.jobs) {
      const auto job = jobs_.find(id);
      if (job == jobs_.end() || !job->second.waits()) {
        Expect(false, "took a job that does not wait");
        return;
      }
      Expect(job->second.request.deadline > now_, "took an expired job");
      tokens += job->second.next_tokens();
      bytes += job->second.request.device_bytes;
      const bool shares = !job->second.request.share_key.empty() && !job->second.in_parts &&
                          job->second.request.tokens <= kBatchTokens;
      Expect(batch.jobs.size() == 1 || (shares && job->second.request.share_key == batch.share_key),
             "jobs together that may not share");
    }
    Expect(tokens <= kBatchTokens && tokens == batch.tokens, "the token budget of a batch");
    Expect(batch.jobs.size() == 1 || bytes <= kBatchBytes, "the byte budget of a batch");
    CheckOrder(batch);
    CheckPriority(batch);
  }

  // Checks that among the jobs of one client and priority, no job goes before an earlier one.
  void CheckOrder(const ScheduledBatch& batch) {
    for (const JobId id : batch.jobs) {
      const ModelJob& job = jobs_[id];
      for (const auto& [other_id, other] : jobs_) {
        const bool overtaken =
            other_id < id && other.state == State::kWaiting && other.in_order && job.in_order &&
            other.request.client == job.request.client &&
            other.request.priority == job.request.priority &&
            std::find(batch.jobs.begin(), batch.jobs.end(), other_id) == batch.jobs.end();
        Expect(!overtaken, "a job overtook an earlier one of its client");
      }
    }
  }

  void CheckPriority(const ScheduledBatch& batch) {
    bool normal_waits = false;
    bool impatient_waits = false;
    for (const auto& [id, job] : jobs_) {
      const bool stays =
          job.waits() && std::find(batch.jobs.begin(), batch.jobs.end(), id) == batch.jobs.end();
      const bool is_low = job.request.priority == Priority::kLow;
      normal_waits |= stays && !is_low;
      impatient_waits |= stays && is_low && now_ - job.arrival >= kPatience;
    }
    bool has_low = false;
    for (const JobId id : batch.jobs) {
      has_low |= jobs_[id].request.priority == Priority::kLow;
    }
    const ModelJob& first = jobs_[batch.jobs.front()];
    const bool first_is_low = first.request.priority == Priority::kLow;
    const bool first_is_impatient = first_is_low && now_ - first.arrival >= kPatience;
    Expect(!has_low || !normal_waits || first_is_impatient, "a low job before a normal one");
    // Under any load, one of two batches goes to low jobs whose patience has ended.
    impatient_batches_missed_ =
        impatient_waits && !first_is_low ? impatient_batches_missed_ + 1 : 0;
    Expect(impatient_batches_missed_ <= 1 + returns_, "a low job starves");
  }

  void ReturnPlanned() {
    if (!has_planned_) {
      return;
    }
    scheduler_.Return(planned_);
    has_planned_ = false;
    ++returns_;
    for (const JobId id : planned_.jobs) {
      const auto job = jobs_.find(id);
      if (job == jobs_.end()) {
        continue;
      }
      if (job->second.more_waits) {
        job->second.remaining += job->second.taken;
        job->second.more_waits = false;
      }
      if (job->second.begun || job->second.in_parts || job->second.request.tokens > kBatchTokens) {
        job->second.in_order = false;
      }
      job->second.state = State::kWaiting;
    }
  }

  // As in the engine, a job that nobody waits for is never launched.
  void Launch() {
    if (!has_planned_ || has_running_) {
      return;
    }
    Expire();
    for (const JobId id : planned_.jobs) {
      if (jobs_.find(id) == jobs_.end()) {
        ReturnPlanned();
        return;
      }
    }
    scheduler_.Launch(planned_);
    running_ = planned_;
    has_running_ = true;
    has_planned_ = false;
    ++launched_;
    for (const JobId id : running_.jobs) {
      ModelJob& job = jobs_[id];
      job.begun = true;
      --job.forwards_left;
      if (job.more_waits) {
        job.more_waits = false;
        job.state = State::kWaiting;
      } else {
        job.state = State::kRunning;
        job.counted = false;
      }
    }
  }

  void Complete() {
    if (!has_running_) {
      return;
    }
    now_ += microseconds(1);
    Expire();
    scheduler_.RecordForward(running_, std::chrono::microseconds(1 + Draw(4)));
    ++recorded_;
    has_running_ = false;
    for (const JobId id : running_.jobs) {
      const auto job = jobs_.find(id);
      if (job == jobs_.end() || job->second.state != State::kRunning) {
        continue;
      }
      const bool goes_wrong = Draw(8) == 0;
      if (job->second.forwards_left > 0 || goes_wrong) {
        job->second.forwards_left = std::max(job->second.forwards_left, 1);
        job->second.remaining =
            std::min(job->second.request.tokens, job->second.forwards_left * kBatchTokens);
        job->second.state = State::kWaiting;
        job->second.in_order = false;
        job->second.in_parts = true;
        job->second.part = 1 + Draw(kBatchTokens);
        scheduler_.Continue(id, job->second.remaining, job->second.part);
      } else {
        scheduler_.Finish(id);
        End(id);
        ++answered_;
      }
    }
  }

  void CancelOne() {
    if (next_id_ == 1) {
      return;
    }
    const auto id = static_cast<JobId>(1 + Draw(static_cast<int64_t>(next_id_) - 1));
    const bool lives = jobs_.find(id) != jobs_.end();
    Expect(scheduler_.Cancel(id) == lives, "a cancellation that disagrees about who lives");
    if (lives) {
      ++cancelled_;
      End(id);
    }
  }

  void Expire() {
    for (const JobId id : scheduler_.Expire(now_)) {
      const auto job = jobs_.find(id);
      Expect(job != jobs_.end() && job->second.request.deadline <= now_,
             "expired a job that has time or has ended");
      ++expired_;
      End(id);
    }
    for (const auto& [id, job] : jobs_) {
      Expect(job.request.deadline > now_, "a job outlived its deadline");
    }
  }

  void End(JobId id) { Expect(jobs_.erase(id) == 1, "a job ended twice"); }

  // Every accepted job ends in a bounded number of steps.
  void Finish() {
    for (int round = 0; round < 400 && error_.empty() && !jobs_.empty(); ++round) {
      now_ += microseconds(1);
      Expire();
      Plan();
      Launch();
      Complete();
    }
    Expect(jobs_.empty() && scheduler_.idle() && !scheduler_.has_waiting(), "a job never ends");
    CheckCounts();
    const Scheduler::Totals& totals = scheduler_.totals();
    Expect(totals.accepted == accepted_ && totals.answered == answered_ &&
               totals.displaced == displaced_ && totals.expired == expired_ &&
               totals.cancelled == cancelled_ &&
               totals.refused[0] + totals.refused[1] + totals.refused[2] == refused_,
           "totals disagree with what happened");
    Expect(accepted_ == answered_ + displaced_ + expired_ + cancelled_, "the totals do not add up");
  }

  bool AnyWaits() const {
    return std::any_of(jobs_.begin(), jobs_.end(),
                       [](const auto& job) { return job.second.waits(); });
  }

  int64_t CountedRequests() const {
    return std::count_if(jobs_.begin(), jobs_.end(),
                         [](const auto& job) { return job.second.counted; });
  }

  int64_t CountedTokens() const {
    int64_t tokens = 0;
    for (const auto& [id, job] : jobs_) {
      tokens += job.counted_tokens();
    }
    return tokens;
  }

  void CheckCounts() {
    const int64_t requests = CountedRequests();
    const int64_t tokens = CountedTokens();
    Expect(requests == scheduler_.queued_requests(Priority::kNormal) +
                           scheduler_.queued_requests(Priority::kLow),
           "the number of queued requests");
    Expect(tokens == scheduler_.queued_tokens(), "the number of queued tokens");
    Expect(requests <= kMaxRequests, "the request limit");
    Expect(tokens <= kMaxTokens || requests == 1, "the token limit");
    Expect(scheduler_.has_waiting() == AnyWaits(), "whether a job waits");
  }

  std::minstd_rand random_;
  Scheduler::Options options_;
  Scheduler scheduler_;
  TimePoint now_ = TimePoint(std::chrono::seconds(1));
  JobId next_id_ = 1;
  std::map<JobId, ModelJob> jobs_;  // those that have not ended
  ScheduledBatch planned_;
  ScheduledBatch running_;
  bool has_planned_ = false;
  bool has_running_ = false;
  int impatient_batches_missed_ = 0;
  int returns_ = 0;
  int64_t recorded_ = 0;
  int64_t launched_ = 0;
  int64_t truncated_ = 0;
  int64_t small_parts_ = 0;
  int64_t accepted_ = 0;
  int64_t answered_ = 0;
  int64_t displaced_ = 0;
  int64_t expired_ = 0;
  int64_t cancelled_ = 0;
  int64_t refused_ = 0;
  std::string error_;
};

void RunEpisodes(uint32_t first_seed, int episodes, int steps) {
  int64_t launched = 0;
  int64_t small_parts = 0;
  for (int i = 0; i < episodes; ++i) {
    const uint32_t seed = first_seed + static_cast<uint32_t>(i);
    const Episode episode(seed, steps);
    ASSERT_EQ(episode.error(), "") << "seed " << seed << ", steps " << steps;
    launched += episode.launched();
    small_parts += episode.small_parts();
  }
  std::cout << "seeds " << first_seed << " + " << episodes << ", " << steps << " steps each, "
            << launched << " forwards, " << small_parts << " of them cut smaller than estimated\n";
  EXPECT_GT(small_parts, 0);
}

TEST(SchedulerRandom, AMillionShortInterleavings) { RunEpisodes(1, 1'000'000, 16); }

TEST(SchedulerRandom, ThousandLongInterleavings) { RunEpisodes(2'000'001, 1'000, 2'000); }

}  // namespace
}  // namespace canopy
