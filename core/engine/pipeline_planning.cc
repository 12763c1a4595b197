// The next forward, from the turn that the scheduler gives to the place before the device.
#include <algorithm>
#include <chrono>
#include <utility>

#include "core/engine/pipeline.h"
#include "core/engine/pipeline_state.h"

namespace canopy {

void Pipeline::PlanLoop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(
          +[](Pipeline* pipeline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(pipeline->mutex_) {
            return pipeline->stopping_ || (pipeline->plan_ahead_ && pipeline->ShouldPlan());
          },
          this));
      if (stopping_) {
        return;
      }
    }
    PlanTurn();
  }
}

// On the planning or the device thread: whoever takes the turn builds it.
void Pipeline::PlanTurn() {
  std::vector<Ended> ended;
  std::unique_ptr<Planned> planned;
  {
    MutexLock lock(&mutex_);
    if (ShouldPlan()) {
      planned = TakeTurn(&ended);
    }
  }
  Deliver(std::move(ended));
  if (planned == nullptr) {
    return;
  }
  const absl::Status built = planned->built ? absl::OkStatus() : BuildForward(planned.get());
  std::vector<Ended> failed;
  {
    MutexLock lock(&mutex_);
    if (built.ok()) {
      Place(std::move(planned));
    } else {
      EndFailed(*planned, built, &failed);
    }
  }
  Deliver(std::move(failed));
}

std::unique_ptr<Pipeline::Planned> Pipeline::TakeTurn(std::vector<Ended>* ended) {
  ExpireJobs(ended);
  std::unique_ptr<Planned> before = std::move(planned_);
  if (before != nullptr) {
    ReturnTurn(before->turn);
  }
  revise_ = false;
  std::optional<Turn> turn = scheduler_.Take(std::chrono::steady_clock::now());
  SetAlarm();
  plan_wanted_ = turn.has_value();
  if (before != nullptr && turn.has_value() && turn->jobs == before->turn.jobs) {
    pending_ = *turn;
    before->turn = *std::move(turn);
    return before;
  }
  if (before != nullptr && before->jobs.size() == 1 && IsCurrent(*before)) {
    const std::shared_ptr<Job> job = before->jobs.front();
    job->prepared = std::move(before);
  }
  if (!turn.has_value()) {
    return nullptr;
  }
  pending_ = *turn;
  if (turn->jobs.size() == 1) {
    std::unique_ptr<Planned> prepared = std::move(jobs_.at(turn->jobs.front())->prepared);
    if (prepared != nullptr && IsCurrent(*prepared)) {
      prepared->turn = *std::move(turn);
      return prepared;
    }
  }
  auto planned = std::make_unique<Planned>();
  // One version for all that share the forward.
  const std::shared_ptr<ModelRunner> runner = jobs_.at(turn->jobs.front())->run->slot().runner();
  for (const JobId id : turn->jobs) {
    const std::shared_ptr<Job>& job = jobs_.at(id);
    if (!job->launched) {
      job->run->Bind(runner);
    }
    planned->jobs.push_back(job);
    planned->passes.push_back(job->pass);
    if (job->prepared != nullptr) {
      // It was to run alone, and now in company.
      job->prepared = nullptr;
      job->pass->next_part = 0;
    }
  }
  planned->turn = *std::move(turn);
  return planned;
}

absl::Status Pipeline::BuildForward(Planned* planned) {
  absl::StatusOr<Forward> forward = planned->passes.size() > 1
                                        ? PlanShared(planned->passes)
                                        : PlanNextPart(*planned->passes.front());
  if (!forward.ok()) {
    return std::move(forward).status();
  }
  planned->forward = *std::move(forward);
  planned->built = true;
  return absl::OkStatus();
}

bool Pipeline::IsCurrent(const Planned& planned) const {
  for (size_t i = 0; i < planned.jobs.size(); ++i) {
    const auto job = jobs_.find(planned.jobs[i]->id);
    if (job == jobs_.end() || job->second->pass != planned.passes[i]) {
      return false;
    }
  }
  return true;
}

// Leaves to later forwards who was taken and not planned.
void Pipeline::Shorten(Planned* planned) {
  const size_t num_jobs = planned->forward.shares.size();
  if (num_jobs < planned->jobs.size()) {
    scheduler_.Shorten(&planned->turn, num_jobs);
    planned->jobs.resize(num_jobs);
    planned->passes.resize(num_jobs);
    pending_ = planned->turn;
  }
}

void Pipeline::Place(std::unique_ptr<Planned> planned) {
  Shorten(planned.get());
  if (!IsCurrent(*planned)) {
    ReturnTurn(planned->turn);
    return;
  }
  if (planned->jobs.size() == 1) {
    const ForwardShare& share = planned->forward.shares.front();
    const JobId id = planned->jobs.front()->id;
    const int64_t part_tokens = std::max<int64_t>(share.computed_tokens, 1);
    if (share.parts_left > 0 || share.plan->num_parts() > 1) {
      scheduler_.CorrectPart(&planned->turn, part_tokens);
      pending_ = planned->turn;
    } else {
      scheduler_.Correct(planned->turn, share.computed_tokens);
    }
    if (share.parts_left > 0 && !scheduler_.IsWaiting(id)) {
      scheduler_.Continue(id, part_tokens * share.parts_left, part_tokens);
    }
  }
  planned_ = std::move(planned);
}

void Pipeline::EndFailed(const Planned& planned, const absl::Status& status,
                         std::vector<Ended>* ended) {
  for (const std::shared_ptr<Job>& job : planned.jobs) {
    if (jobs_.contains(job->id)) {
      End(job->id, status, ended);
    }
  }
  ReturnTurn(planned.turn);
}

void Pipeline::ReturnTurn(const Turn& turn) {
  scheduler_.Return(turn);
  pending_.reset();
  plan_wanted_ = true;
}

}  // namespace canopy
