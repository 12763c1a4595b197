// Random events drive ForwardStates with a fake clock. A plain model, which knows only what the
// header promises, predicts the states and checks every forward that is launched.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/engine/forward_states.h"
#include "core/tree/path_batch.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using Device = ForwardStates::Device;
using Next = ForwardStates::Next;
using Step = ForwardStates::Step;

constexpr int64_t kBatchTokens = 8;
constexpr int64_t kBatchBytes = 20;
constexpr int64_t kMaxRequests = 6;
constexpr int64_t kMaxTokens = 40;
constexpr microseconds kWindow{3};

// A pass in the model: the number of its parts, and how many of them were launched.
struct ModelPass {
  int parts = 1;
  int launched = 0;
};

struct ModelJob {
  JobRequest request;
  TimePoint arrival;
  std::shared_ptr<AdmittedJob> job;
  std::shared_ptr<Pass> pass;
  ModelPass progress;
};

// Counts events, to show that an episode reaches them.
struct Coverage {
  int64_t launched = 0;
  int64_t planned_while_running = 0;
  int64_t made_stale = 0;
  int64_t reused = 0;  // forwards that were not built again
  int64_t returned_at_launch = 0;
  int64_t restarted_while_planned = 0;

  void Add(const Coverage& other) {
    launched += other.launched;
    planned_while_running += other.planned_while_running;
    made_stale += other.made_stale;
    reused += other.reused;
    returned_at_launch += other.returned_at_launch;
    restarted_while_planned += other.restarted_while_planned;
  }
};

class Episode {
 public:
  Episode(uint32_t seed, int steps) : random_(seed), states_(RandomOptions()) {
    for (int step = 0; step < steps && error_.empty(); ++step) {
      DoSomething();
      CheckState();
    }
    Finish();
  }

  const std::string& error() const { return error_; }
  const Coverage& coverage() const { return coverage_; }

 private:
  int64_t Draw(int64_t below) { return static_cast<int64_t>(random_() % below); }

  Scheduler::Options RandomOptions() {
    options_.max_batch_tokens = kBatchTokens;
    options_.max_batch_bytes = kBatchBytes;
    options_.max_queued_requests = kMaxRequests;
    options_.max_queued_tokens = kMaxTokens;
    options_.batch_window = absl::FromChrono(Draw(3) == 0 ? kWindow : microseconds(0));
    options_.low_priority_patience = absl::Microseconds(12);
    return options_;
  }

  void Expect(bool holds, const char* what) {
    if (!holds && error_.empty()) {
      error_ = what;
    }
  }

  void DoSomething() {
    const int64_t choice = Draw(24);
    if (choice < 6) {
      Arrive();
    } else if (choice < 10) {
      StartPlanning();
    } else if (choice < 14) {
      EndPlanning();
    } else if (choice < 16) {
      Launch();
    } else if (choice < 18) {
      FinishForward();
    } else if (choice == 18) {
      Cancel();
    } else if (choice < 21) {
      now_ += microseconds(1 + Draw(3));
      if (Draw(3) != 0) {
        Expire();
      }
    } else if (choice == 21) {
      StartWork();
    } else {
      FinishWork();
    }
  }

  JobRequest RandomRequest() {
    static const char* const kNames[] = {"a", "b", "c"};
    static const char* const kKeys[] = {"", "x", "x", "y"};
    JobRequest request;
    request.id = next_id_++;
    request.client = kNames[Draw(3)];
    request.share_key = kKeys[Draw(4)];
    request.priority = Draw(4) == 0 ? Priority::kLow : Priority::kNormal;
    request.tokens = Draw(4) == 0 ? 1 + Draw(3 * kBatchTokens) : 1 + Draw(4);
    request.device_bytes = Draw(8);
    if (Draw(4) == 0) {
      request.deadline = now_ + microseconds(1 + Draw(20));
    }
    return request;
  }

  std::shared_ptr<Pass> NewPass(int64_t tokens) {
    auto pass = std::make_shared<Pass>();
    auto batch = std::make_shared<PathBatch>();
    batch->tokens.resize(static_cast<size_t>(tokens));
    pass->batch = std::move(batch);
    pass->budget_tokens = kBatchTokens;
    return pass;
  }

  // A pass within the budget may also be cut, as by a learned limit.
  ModelPass NewProgress(int64_t tokens) {
    const auto parts = static_cast<int>((tokens + kBatchTokens - 1) / kBatchTokens);
    return {parts == 1 && Draw(6) == 0 ? 2 : parts, 0};
  }

  bool IsBusy() const { return device_ != Device::kIdle; }

  void Arrive() {
    const JobRequest request = RandomRequest();
    auto job = std::make_shared<AdmittedJob>();
    job->id = request.id;
    job->pass = NewPass(request.tokens);
    const bool was_stale = states_.stale();
    const ForwardStates::Arrival arrival = states_.Arrive(request, job, now_);
    Expect(arrival.draining == draining_, "a drain lets jobs in, or an arrival is refused for it");
    if (arrival.draining || arrival.admission.refusal.has_value()) {
      Expect(!states_.HasJob(request.id), "a refused job is in");
      Expect(states_.stale() == was_stale, "a refused job changed what is planned");
      return;
    }
    if (arrival.admission.displaced.has_value()) {
      EndEarly(*arrival.admission.displaced, arrival.displaced);
    }
    jobs_[request.id] = {request, now_, job, job->pass, NewProgress(request.tokens)};
    const bool may_revise = IsBusy() && next_ != Next::kEmpty;
    if (may_revise && FitsBatch(request)) {
      Expect(states_.stale(), "a job that fits the planned forward does not join it");
    }
    Expect(may_revise || states_.stale() == stale_, "an arrival changed what is not to change");
    coverage_.made_stale += states_.stale() && !stale_ ? 1 : 0;
    // Whether the job goes before a part of another job depends on batches that only the scheduler
    // knows.
    stale_ = states_.stale();
  }

  // Returns whether the planned batch would also take the job.
  bool FitsBatch(const JobRequest& request) const {
    return !batch_.share_key.empty() && batch_.share_key == request.share_key &&
           request.tokens <= kBatchTokens - batch_.tokens &&
           request.device_bytes <= kBatchBytes - batch_.device_bytes &&
           jobs_.find(batch_.jobs.front()) != jobs_.end();
  }

  // Records that a job ended without an answer.
  void EndEarly(JobId id, const std::shared_ptr<AdmittedJob>& job) {
    Expect(job != nullptr, "an end without its job");
    End(id, job);
    if (IsBusy() && next_ != Next::kEmpty) {
      stale_ = true;
    }
  }

  void End(JobId id, const std::shared_ptr<AdmittedJob>& job) {
    const auto found = jobs_.find(id);
    Expect(found != jobs_.end(), "a job ended twice");
    if (found != jobs_.end()) {
      Expect(found->second.job == job, "another job's end");
      Expect(job == nullptr || job->kept_part == nullptr, "a job that ended keeps a part");
      jobs_.erase(found);
    }
  }

  void Cancel() {
    if (next_id_ == 1) {
      return;
    }
    const auto id = static_cast<JobId>(1 + Draw(static_cast<int64_t>(next_id_) - 1));
    const bool lives = jobs_.find(id) != jobs_.end();
    const std::shared_ptr<AdmittedJob> job = states_.Cancel(id);
    Expect((job != nullptr) == lives, "a cancellation that disagrees about who lives");
    if (job != nullptr) {
      EndEarly(id, job);
    }
  }

  void Expire() { EndExpired(states_.Expire(now_)); }

  void EndExpired(const ForwardStates::Jobs& expired) {
    for (const auto& job : expired) {
      const auto found = jobs_.find(job->id);
      Expect(found != jobs_.end() && found->second.request.deadline <= now_,
             "expired a job that has time or has ended");
      EndEarly(job->id, job);
    }
    for (const auto& [id, job] : jobs_) {
      Expect(job.request.deadline > now_, "a job outlived its deadline");
    }
  }

  void StartPlanning() {
    const bool permitted = states_.CanPlan();
    const bool was_planned = next_ == Next::kPlanned;
    Expect(!was_planned || permitted == stale_, "a forward is planned again exactly if stale");
    Expect(next_ != Next::kPlanning || !permitted, "two forwards are planned at once");
    ForwardStates::Jobs expired;
    std::unique_ptr<PlannedForward> planned = states_.StartPlanning(now_, &expired);
    if (!permitted) {
      Expect(planned == nullptr && expired.empty(), "planned what need not be");
      return;
    }
    next_ = Next::kEmpty;
    stale_ = false;
    EndExpired(expired);
    if (planned == nullptr) {
      return;
    }
    next_ = Next::kPlanning;
    batch_ = planned->batch;
    coverage_.planned_while_running += device_ == Device::kRunning ? 1 : 0;
    coverage_.reused += planned->built ? 1 : 0;
    Expect(
        planned->jobs.size() == batch_.jobs.size() && planned->passes.size() == batch_.jobs.size(),
        "a forward that is not its batch's");
    for (size_t i = 0; i < batch_.jobs.size() && error_.empty(); ++i) {
      const auto found = jobs_.find(batch_.jobs[i]);
      Expect(found != jobs_.end(), "planned a job that has ended");
      Expect(found == jobs_.end() || (planned->jobs[i] == found->second.job &&
                                      planned->passes[i] == found->second.pass),
             "planned another job or an old pass");
    }
    planning_ = std::move(planned);
  }

  // Plans a batch with all its jobs, with fewer jobs, or as the next part of one job.
  void Build(PlannedForward* planned) {
    if (planned->built) {
      return;
    }
    const auto num_jobs = static_cast<int64_t>(planned->jobs.size());
    const int64_t taken = num_jobs > 1 && Draw(3) == 0 ? 1 + Draw(num_jobs - 1) : num_jobs;
    planned->forward.shares.resize(static_cast<size_t>(taken));
    for (int64_t i = 0; i < taken; ++i) {
      planned->forward.shares[i].computed_tokens = 1 + Draw(4);
    }
    if (taken == 1) {
      // The job may have ended meanwhile; its pass is still built.
      const auto found = jobs_.find(planned->jobs.front()->id);
      const int parts = found == jobs_.end() ? 1 : found->second.progress.parts;
      ForwardShare& share = planned->forward.shares.front();
      share.first_row = planned->passes.front()->next_part++;
      share.parts_left = std::max(parts - planned->passes.front()->next_part, 0);
    }
    planned->built = true;
  }

  // Returns whether the jobs of the planned forward have not ended and still have the passes that
  // it was planned for.
  bool IsBatchCurrent() const {
    for (size_t i = 0; i < batch_.jobs.size(); ++i) {
      const auto found = jobs_.find(batch_.jobs[i]);
      if (found == jobs_.end() || found->second.pass != planned_passes_[i]) {
        return false;
      }
    }
    return true;
  }

  void EndPlanning() {
    if (planning_ == nullptr) {
      Expect(!states_.EndPlanning(std::make_unique<PlannedForward>()), "ended what nobody began");
      Expect(states_.FailPlanning(std::make_unique<PlannedForward>()).empty(), "failed nothing");
      return;
    }
    if (Draw(16) == 0) {
      FailPlanning();
      return;
    }
    Build(planning_.get());
    const size_t num_jobs = planning_->forward.shares.size();
    if (num_jobs < batch_.jobs.size() ||
        (num_jobs == 1 && planning_->forward.shares.front().parts_left > 0)) {
      batch_.share_key.clear();  // no job joins any more
    }
    batch_.jobs.resize(num_jobs);
    planned_passes_.assign(planning_->passes.begin(),
                           planning_->passes.begin() + static_cast<std::ptrdiff_t>(num_jobs));
    Expect(states_.EndPlanning(std::move(planning_)), "the planned forward is refused");
    planning_ = nullptr;
    const bool is_current = IsBatchCurrent();
    next_ = is_current ? Next::kPlanned : Next::kEmpty;
    stale_ = stale_ && is_current;
  }

  void FailPlanning() {
    std::vector<JobId> alive;
    for (const auto& job : planning_->jobs) {
      if (jobs_.find(job->id) != jobs_.end()) {
        alive.push_back(job->id);
      }
    }
    const ForwardStates::Jobs ended = states_.FailPlanning(std::move(planning_));
    planning_ = nullptr;
    Expect(ended.size() == alive.size(), "a failure that ends others than its jobs");
    for (const auto& job : ended) {
      End(job->id, job);
    }
    next_ = Next::kEmpty;
    stale_ = false;
  }

  void Launch() {
    const bool permitted = !IsBusy() && next_ == Next::kPlanned && !stale_;
    ForwardStates::Jobs expired;
    std::unique_ptr<PlannedForward> planned = states_.Launch(now_, &expired);
    if (!permitted) {
      Expect(planned == nullptr && expired.empty(), "launched what must not be");
      return;
    }
    EndExpired(expired);
    device_work_ran_last_ = false;
    next_ = Next::kEmpty;
    const bool is_current = IsBatchCurrent();
    Expect((planned != nullptr) == is_current, "launched exactly what all of its jobs still want");
    if (planned == nullptr) {
      ++coverage_.returned_at_launch;
      return;
    }
    device_ = Device::kRunning;
    ++coverage_.launched;
    running_ = std::move(planned);
    Expect(running_->built && running_->jobs.size() == running_->forward.shares.size(),
           "launched what was not built");
    for (const auto& job : running_->jobs) {
      Expect(job->launched, "a launched job does not say so");
      const auto found = jobs_.find(job->id);
      if (found == jobs_.end()) {
        Expect(false, "launched a job that has ended");
        return;
      }
      ModelPass& progress = found->second.progress;
      if (running_->jobs.size() == 1) {
        Expect(running_->forward.shares.front().first_row == progress.launched,
               "a part was left out or launched twice");
        ++progress.launched;
      } else {
        Expect(progress.launched == 0, "a job that began alone shares a forward");
        progress.launched = progress.parts;
      }
    }
  }

  void FinishForward() {
    if (device_ != Device::kRunning) {
      Expect(!states_.Finish(), "finished a forward that does not run");
      return;
    }
    now_ += microseconds(1);
    states_.RecordForward(running_->batch, microseconds(1 + Draw(300)));
    for (size_t i = 0; i < running_->jobs.size(); ++i) {
      const JobId id = running_->jobs[i]->id;
      const auto found = jobs_.find(id);
      if (found == jobs_.end()) {
        Expect(states_.End(id) == nullptr && !states_.Restart(id, NewPass(1)),
               "answered a job that has ended");
        continue;
      }
      ModelJob& job = found->second;
      if (Draw(8) == 0) {
        Restart(id, &job);
      } else if (job.progress.launched == job.progress.parts) {
        End(id, states_.End(id));
      }
    }
    running_ = nullptr;
    Expect(states_.Finish(), "a forward that runs does not finish");
    device_ = Device::kIdle;
  }

  void Restart(JobId id, ModelJob* job) {
    job->pass = NewPass(job->request.tokens);
    job->progress = NewProgress(job->request.tokens);
    Expect(states_.Restart(id, job->pass), "a job that lives does not run again");
    if (next_ == Next::kPlanned && !IsBatchCurrent()) {
      next_ = Next::kEmpty;
      stale_ = false;
      ++coverage_.restarted_while_planned;
    }
  }

  void StartWork() {
    Expect(states_.StartWork() == !IsBusy(), "work runs exactly on an idle device");
    if (!IsBusy()) {
      device_ = Device::kWorking;
      device_work_ran_last_ = true;
    }
  }

  void FinishWork() {
    Expect(states_.FinishWork() == (device_ == Device::kWorking), "the end of no work");
    if (device_ == Device::kWorking) {
      device_ = Device::kIdle;
    }
  }

  void CheckState() {
    Expect(states_.next() == next_, "the state of the next forward");
    Expect(states_.device() == device_, "the state of the device");
    Expect(states_.stale() == stale_, "whether the next forward is stale");
    Expect(states_.idle() == (jobs_.empty() && device_ != Device::kRunning), "idle");
    Expect(next_ != Next::kEmpty || !stale_, "no forward, and yet stale");
    for (const auto& [id, job] : jobs_) {
      Expect(states_.HasJob(id), "a job that lives is missing");
    }
    const auto ended = static_cast<JobId>(Draw(static_cast<int64_t>(next_id_)));
    Expect(states_.HasJob(ended) == (jobs_.find(ended) != jobs_.end()), "who lives");
    CheckAlarm();
    CheckSteps();
  }

  // Checks that no deadline is missed because an alarm is not set.
  void CheckAlarm() {
    TimePoint first = TimePoint::max();
    for (const auto& [id, job] : jobs_) {
      first = std::min(first, job.request.deadline);
    }
    Expect(states_.next_alarm() <= first, "an alarm after the first deadline");
    Expect(options_.batch_window > absl::ZeroDuration() || states_.next_alarm() == first,
           "an alarm for nothing");
  }

  // Checks that an idle device is told the next step.
  void CheckSteps() {
    const bool can_launch = !IsBusy() && next_ == Next::kPlanned && !stale_;
    Expect(states_.CanLaunch() == can_launch, "whether a forward is ready");
    Expect(!states_.CanPlanAhead() || (IsBusy() && states_.CanPlan()), "planning ahead of nothing");
    if (IsBusy()) {
      Expect(states_.NextStep(true) == Step::kWait && states_.NextStep(false) == Step::kWait,
             "a second step for a busy device");
      return;
    }
    Expect(states_.NextStep(true) ==
               (can_launch && device_work_ran_last_ ? Step::kLaunch : Step::kWork),
           "work and forwards do not alternate");
    const Step step = states_.NextStep(false);
    if (next_ == Next::kPlanned) {
      Expect(step == (stale_ ? Step::kPlan : Step::kLaunch), "a planned forward is left alone");
    } else if (next_ == Next::kPlanning) {
      Expect(step == Step::kWait, "a second forward beside the one that is planned");
    } else if (!jobs_.empty() && step != Step::kPlan) {
      // Nothing runs and nothing is planned, so all remaining jobs wait, and only for the batch
      // window.
      Expect(options_.batch_window > absl::ZeroDuration() &&
                 states_.next_alarm() <= now_ + absl::ToChronoMicroseconds(options_.batch_window),
             "jobs wait and nobody plans for them");
    }
  }

  // Drains, and then takes the steps that the states return. Expects every accepted job to end
  // within a bounded number of steps.
  void Finish() {
    states_.Drain();
    draining_ = true;
    Arrive();
    for (int round = 0; round < 1000 && error_.empty() && !states_.idle(); ++round) {
      now_ += microseconds(1);
      Expire();
      FinishWork();
      FinishForward();
      if (planning_ != nullptr) {
        EndPlanning();
      } else if (states_.NextStep(false) == Step::kPlan) {
        StartPlanning();
      } else if (states_.NextStep(false) == Step::kLaunch) {
        Launch();
      }
      CheckState();
    }
    Expect(jobs_.empty() && states_.idle(), "a job never ends");
    Expect(states_.scheduler().idle(), "the scheduler knows a job that has ended");
  }

  std::minstd_rand random_;
  Scheduler::Options options_;
  ForwardStates states_;
  TimePoint now_ = TimePoint(std::chrono::seconds(1));
  JobId next_id_ = 1;
  std::map<JobId, ModelJob> jobs_;  // those that have not ended
  Next next_ = Next::kEmpty;
  Device device_ = Device::kIdle;
  bool stale_ = false;
  bool device_work_ran_last_ = false;
  bool draining_ = false;
  ScheduledBatch batch_;  // of the planned forward
  std::vector<std::shared_ptr<Pass>> planned_passes_;
  std::unique_ptr<PlannedForward> planning_;  // while a forward is planned
  std::unique_ptr<PlannedForward> running_;
  Coverage coverage_;
  std::string error_;
};

void RunEpisodes(uint32_t first_seed, int episodes, int steps) {
  Coverage all;
  for (int i = 0; i < episodes; ++i) {
    const uint32_t seed = first_seed + static_cast<uint32_t>(i);
    const Episode episode(seed, steps);
    ASSERT_EQ(episode.error(), "") << "seed " << seed << ", steps " << steps;
    all.Add(episode.coverage());
  }
  std::cout << "seeds " << first_seed << " + " << episodes << ", " << steps
            << " steps each: " << all.launched << " forwards launched, "
            << all.planned_while_running << " planned while one ran, " << all.made_stale
            << " revised for an arrival, " << all.reused << " not built again, "
            << all.returned_at_launch << " returned at their launch, "
            << all.restarted_while_planned << " returned for a new pass\n";
  EXPECT_GT(all.launched, 0);
  EXPECT_GT(all.planned_while_running, 0);
  EXPECT_GT(all.made_stale, 0);
  EXPECT_GT(all.reused, 0);
  EXPECT_GT(all.returned_at_launch, 0);
  EXPECT_GT(all.restarted_while_planned, 0);
}

TEST(ForwardStatesRandom, AHundredThousandShortInterleavings) { RunEpisodes(1, 100'000, 32); }

TEST(ForwardStatesRandom, FiveHundredLongInterleavings) { RunEpisodes(2'000'001, 500, 2'000); }

}  // namespace
}  // namespace canopy
