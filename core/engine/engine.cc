#include "core/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_details.h"
#include "base/status_macros.h"
#include "core/engine/engine_errors.h"
#include "core/engine/job_estimate.h"

namespace canopy {
namespace {

absl::Status CheckOptions(const Engine::Options& options) {
  const Scheduler::Options& scheduler = options.scheduler;
  if (scheduler.max_batch_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_tokens: ", scheduler.max_batch_tokens, " is below 1"));
  }
  if (scheduler.max_batch_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_bytes: ", scheduler.max_batch_bytes, " is below 1"));
  }
  if (scheduler.batch_window < absl::ZeroDuration() ||
      scheduler.low_priority_patience < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "batch_window and low_priority_patience must not be negative");
  }
  if (scheduler.max_queued_requests < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_queued_requests: ", scheduler.max_queued_requests, " is below 1"));
  }
  if (scheduler.max_queued_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_queued_tokens: ", scheduler.max_queued_tokens, " is below 1"));
  }
  if (options.max_mask_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_mask_bytes: ", options.max_mask_bytes, " is negative"));
  }
  return absl::OkStatus();
}

std::vector<std::unique_ptr<ServedModel>> MakeServedModels(
    std::vector<std::unique_ptr<ModelRunner>> runners) {
  std::vector<std::unique_ptr<ServedModel>> served_models;
  served_models.reserve(runners.size());
  for (std::unique_ptr<ModelRunner>& runner : runners) {
    served_models.push_back(std::make_unique<ServedModel>(std::move(runner)));
  }
  return served_models;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners) {
  CANOPY_RETURN_IF_ERROR(CheckOptions(options));
  if (runners.empty()) {
    return absl::InvalidArgumentError("no model");
  }
  absl::flat_hash_set<std::string> names;
  for (const auto& runner : runners) {
    if (!names.insert(runner->info()->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two models are named '", runner->info()->name, "'"));
    }
    if (options.default_backend == Backend::kFused && !runner->info()->fused_supported) {
      return absl::FailedPreconditionError(
          absl::StrCat("backend: fused does not run on model '", runner->info()->name,
                       "' here; it has: auto, ", ListBackends(runner->info()->backend_support())));
    }
  }
  return std::unique_ptr<Engine>(new Engine(options, std::move(runners)));
}

Engine::Engine(const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners)
    : options_(options),
      served_models_(MakeServedModels(std::move(runners))),
      states_(options.scheduler),
      alarm_([this] { OnAlarm(); }),
      planning_thread_([this] { PlanLoop(); }),
      device_thread_([this] { DeviceLoop(); }) {}

Engine::~Engine() {
  Drain();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  device_thread_.join();
  planning_thread_.join();
}

const ServedModel* Engine::FindServedModel(absl::string_view name) const {
  for (const auto& served : served_models_) {
    if (name.empty() || served->name() == name) {
      return served.get();
    }
  }
  return nullptr;
}

std::vector<std::shared_ptr<const ModelInfo>> Engine::models() const {
  std::vector<std::shared_ptr<const ModelInfo>> models;
  models.reserve(served_models_.size());
  for (const auto& served : served_models_) {
    models.push_back(served->info());
  }
  return models;
}

std::shared_ptr<const ModelInfo> Engine::FindModel(absl::string_view name) const {
  const ServedModel* served = FindServedModel(name);
  return served == nullptr ? nullptr : served->info();
}

absl::Status Engine::ReplaceModel(std::shared_ptr<ModelRunner> next,
                                  absl::string_view expected_fingerprint) {
  const std::string name = next->info()->name;
  for (const auto& served : served_models_) {
    if (served->name() == name) {
      return served->Replace(std::move(next), expected_fingerprint);
    }
  }
  return absl::NotFoundError(absl::StrCat("model: '", name, "' is not loaded"));
}

RouteOptions Engine::EffectiveRoute(const ScoreJob& job, const ModelInfo& model) const {
  RouteOptions route;
  route.backend = job.routing.backend;
  route.packing = job.routing.packing;
  route.policy = job.routing.policy.value_or(model.default_policy);
  route.costs = model.route_costs;
  if (!job.routing.policy.has_value()) {
    if (route.backend == Backend::kAuto) {
      route.backend = options_.default_backend;
    }
    if (route.packing == Packing::kAuto) {
      route.packing = options_.default_packing;
    }
  }
  route.max_mask_bytes = job.routing.max_mask_bytes.value_or(options_.max_mask_bytes);
  route.hidden_size = static_cast<int32_t>(model.hidden_size);
  route.tree_supported = model.tree_supported;
  route.fused_supported = model.fused_supported;
  return route;
}

JobRequest Engine::RequestFor(const ScoreJob& job, const RouteOptions& route,
                              const ModelInfo& model) const {
  const JobEstimate estimate = EstimateJob(job, route, model);
  JobRequest request;
  request.id = job.id;
  request.client = job.client;
  request.share_key = ShareKey(job, route, model, options_.share_across_tenants);
  request.priority = job.priority;
  request.tokens = estimate.tokens;
  request.device_bytes = estimate.device_bytes;
  request.forecast_nanos = estimate.forecast_nanos;
  request.deadline = job.deadline;
  return request;
}

absl::Status Engine::Submit(ScoreJob job, Callback done) {
  const ServedModel* served = FindServedModel(job.model);
  if (served == nullptr) {
    return absl::NotFoundError(absl::StrCat("model: '", job.model, "' is not loaded"));
  }
  if (!healthy()) {
    return UnhealthyError();
  }
  if (job.id == 0) {
    job.id = NewJobId();
  }
  const std::shared_ptr<const ModelInfo> model = served->info();
  const RouteOptions route = EffectiveRoute(job, *model);
  const JobRequest request = RequestFor(job, route, *model);
  auto admitted = std::make_shared<AdmittedJob>();
  admitted->id = request.id;
  admitted->run =
      std::make_unique<JobRun>(std::move(job), route, options_.scheduler.max_batch_tokens, served);
  admitted->pass = admitted->run->TakePass();
  admitted->done = std::move(done);
  return Admit(request, admitted);
}

absl::Status Engine::Admit(const JobRequest& request, const std::shared_ptr<AdmittedJob>& job) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (request.deadline <= now) {
    return DeadlineError();
  }
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    ForwardStates::Arrival arrival = states_.Arrive(request, job, now);
    if (arrival.draining) {
      ++stats_.refused_draining;
      return DrainingError();
    }
    const absl::Duration delay = absl::FromChrono(arrival.admission.retry_delay);
    if (const std::optional<Refusal> refusal = arrival.admission.refusal; refusal.has_value()) {
      return WithRetryAfter(RefusalError(*refusal, request, states_.scheduler()), delay);
    }
    if (arrival.displaced != nullptr) {
      EndEarly(std::move(arrival.displaced), WithRetryAfter(DisplacedError(), delay), &ended);
    }
    SetAlarm();
  }
  Deliver(std::move(ended));
  return absl::OkStatus();
}

void Engine::Cancel(JobId id) {
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    // gRPC also cancels a call when its deadline passes, so expired jobs end first.
    EndExpired(states_.Expire(std::chrono::steady_clock::now()), &ended);
    if (std::shared_ptr<AdmittedJob> job = states_.Cancel(id); job != nullptr) {
      EndEarly(std::move(job), absl::CancelledError("the caller is gone"), &ended);
    }
  }
  Deliver(std::move(ended));
}

absl::Status Engine::RunOnDevice(const std::function<absl::Status()>& work) {
  DeviceWork own{work, absl::OkStatus()};
  MutexLock lock(&mutex_);
  if (states_.draining()) {
    return DrainingError();
  }
  device_work_.push_back(&own);
  mutex_.Await(Condition(&own.done));
  return own.status;
}

void Engine::Drain() {
  MutexLock lock(&mutex_);
  states_.Drain();
  for (; !device_work_.empty(); device_work_.pop_front()) {
    device_work_.front()->status = DrainingError();
    device_work_.front()->done = true;
  }
  mutex_.Await(Condition(
      +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
        return engine->states_.idle() && engine->delivering_ == 0;
      },
      this));
}

EngineStats Engine::stats() const {
  MutexLock lock(&mutex_);
  EngineStats stats = stats_;
  const Scheduler& scheduler = states_.scheduler();
  stats.queued_normal = scheduler.queued_requests(Priority::kNormal);
  stats.queued_low = scheduler.queued_requests(Priority::kLow);
  stats.queued_tokens = scheduler.queued_tokens();
  const Scheduler::Totals& totals = scheduler.totals();
  stats.accepted = totals.accepted;
  stats.answered = totals.answered;
  stats.displaced = totals.displaced;
  stats.expired = totals.expired;
  stats.cancelled = totals.cancelled;
  stats.refused_queued_requests = totals.refused[static_cast<size_t>(Refusal::kQueuedRequests)];
  stats.refused_queued_tokens = totals.refused[static_cast<size_t>(Refusal::kQueuedTokens)];
  stats.refused_deadline = totals.refused[static_cast<size_t>(Refusal::kDeadline)];
  return stats;
}

void Engine::EndEarly(std::shared_ptr<AdmittedJob> job, absl::Status status,
                      std::vector<Ended>* ended) {
  stats_.wasted_device_seconds += job->device_seconds;
  ended->push_back({std::move(job), std::move(status)});
  ++delivering_;
}

void Engine::EndExpired(ForwardStates::Jobs expired, std::vector<Ended>* ended) {
  for (std::shared_ptr<AdmittedJob>& job : expired) {
    EndEarly(std::move(job), DeadlineError(), ended);
  }
}

void Engine::EndAnswered(JobId id, absl::StatusOr<ScoreResult> result, std::vector<Ended>* ended) {
  std::shared_ptr<AdmittedJob> job = states_.End(id);
  if (job == nullptr) {
    return;
  }
  if (result.ok()) {
    StageTimes& times = result->times;
    times.queue_ms = std::max(0.0, job->waiting.ElapsedMs() - times.plan_ms - times.device_ms);
  }
  ended->push_back({std::move(job), std::move(result)});
  ++delivering_;
}

void Engine::SetAlarm() {
  if (const TimePoint at = states_.next_alarm(); at < alarm_at_) {
    alarm_at_ = at;
    alarm_.SetAt(at);
  }
}

void Engine::OnAlarm() {
  std::vector<Ended> ended;
  {
    MutexLock lock(&mutex_);
    alarm_at_ = TimePoint::max();
    EndExpired(states_.Expire(std::chrono::steady_clock::now()), &ended);
    SetAlarm();
  }
  Deliver(std::move(ended));
}

void Engine::Deliver(std::vector<Ended> ended) {
  if (ended.empty()) {
    return;
  }
  for (Ended& answer : ended) {
    answer.job->done(std::move(answer.result));
  }
  const auto delivered = static_cast<int64_t>(ended.size());
  // A drain also waits for the memory that the jobs hold.
  ended.clear();
  MutexLock lock(&mutex_);
  delivering_ -= delivered;
}

absl::StatusOr<RequestPlan> Engine::Plan(const ScoreJob& job) const {
  const ServedModel* served = FindServedModel(job.model);
  if (served == nullptr) {
    return absl::NotFoundError(absl::StrCat("model: '", job.model, "' is not loaded"));
  }
  return RequestPlan::Create(job.batch, EffectiveRoute(job, *served->info()),
                             options_.scheduler.max_batch_tokens, TrieUse::kAlways);
}

GraphUse Engine::graphs() const {
  GraphUse sum;
  for (const auto& served : served_models_) {
    const GraphUse use = served->runner()->graphs();
    sum.count += use.count;
    sum.bytes += use.bytes;
  }
  return sum;
}

}  // namespace canopy
