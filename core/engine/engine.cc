#include "core/engine/engine.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "core/engine/job_estimate.h"
#include "core/engine/job_run.h"

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
    : options_(options) {
  for (std::unique_ptr<ModelRunner>& runner : runners) {
    slots_.push_back(std::make_unique<ModelSlot>(std::move(runner)));
  }
  pipeline_ = std::make_unique<Pipeline>(options_.scheduler, options_.on_forward);
}

const ModelSlot* Engine::FindSlot(absl::string_view name) const {
  for (const auto& slot : slots_) {
    if (name.empty() || slot->name() == name) {
      return slot.get();
    }
  }
  return nullptr;
}

std::vector<std::shared_ptr<const ModelInfo>> Engine::models() const {
  std::vector<std::shared_ptr<const ModelInfo>> models;
  models.reserve(slots_.size());
  for (const auto& slot : slots_) {
    models.push_back(slot->info());
  }
  return models;
}

std::shared_ptr<const ModelInfo> Engine::FindModel(absl::string_view name) const {
  const ModelSlot* slot = FindSlot(name);
  return slot == nullptr ? nullptr : slot->info();
}

absl::Status Engine::ReplaceModel(std::shared_ptr<ModelRunner> next,
                                  absl::string_view expected_fingerprint) {
  const std::string name = next->info()->name;
  for (const auto& slot : slots_) {
    if (slot->name() == name) {
      return slot->Replace(std::move(next), expected_fingerprint);
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

absl::Status Engine::Submit(ScoreJob job, Callback done) {
  const ModelSlot* slot = FindSlot(job.model);
  if (slot == nullptr) {
    return absl::NotFoundError(absl::StrCat("model: '", job.model, "' is not loaded"));
  }
  if (!healthy()) {
    return UnhealthyError();
  }
  const std::shared_ptr<const ModelInfo> model = slot->info();
  const RouteOptions route = EffectiveRoute(job, *model);
  const JobEstimate estimate = EstimateJob(job, route, *model);
  JobRequest request;
  request.id = job.id == 0 ? NewJobId() : job.id;
  request.client = job.client;
  request.share_key = ShareKey(job, route, *model, options_.share_across_tenants);
  request.priority = job.priority;
  request.tokens = estimate.tokens;
  request.device_bytes = estimate.device_bytes;
  request.forecast_nanos = estimate.forecast_nanos;
  request.deadline = job.deadline;
  auto run =
      std::make_unique<JobRun>(std::move(job), route, options_.scheduler.max_batch_tokens, slot);
  return pipeline_->Submit(request, std::move(run), std::move(done));
}

absl::StatusOr<RequestPlan> Engine::Plan(const ScoreJob& job) const {
  const ModelSlot* slot = FindSlot(job.model);
  if (slot == nullptr) {
    return absl::NotFoundError(absl::StrCat("model: '", job.model, "' is not loaded"));
  }
  return RequestPlan::Create(job.batch, EffectiveRoute(job, *slot->info()),
                             options_.scheduler.max_batch_tokens, TrieUse::kAlways);
}

GraphUse Engine::graphs() const {
  GraphUse sum;
  for (const auto& slot : slots_) {
    const GraphUse use = slot->runner()->graphs();
    sum.count += use.count;
    sum.bytes += use.bytes;
  }
  return sum;
}

}  // namespace canopy
