#include "core/engine/engine.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/logging.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/engine/job_run.h"

namespace canopy {
namespace {

// A full queue holds at most some seconds of work: a client that comes back sooner is refused
// again.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

absl::Status CheckOptions(const Engine::Options& options) {
  if (options.max_batch_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_tokens: ", options.max_batch_tokens, " is below 1"));
  }
  if (options.max_queued_requests < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_queued_requests: ", options.max_queued_requests, " is below 1"));
  }
  if (options.max_queued_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_queued_tokens: ", options.max_queued_tokens, " is below 1"));
  }
  if (options.max_mask_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_mask_bytes: ", options.max_mask_bytes, " is negative"));
  }
  return absl::OkStatus();
}

int64_t InputTokens(const PathBatch& batch) {
  int64_t tokens = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const int64_t num_paths =
        batch.question_offsets[question + 1] - batch.question_offsets[question];
    tokens += num_paths * batch.prefixes[question].size;
  }
  for (const TokenSpan& suffix : batch.suffixes) {
    tokens += suffix.size;
  }
  return tokens;
}

absl::Status UnhealthyError() {
  return absl::UnavailableError("the device was lost; this server must be restarted");
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
                       "' here; it has: auto, dense, segmented, path"));
    }
  }
  return std::unique_ptr<Engine>(new Engine(options, std::move(runners)));
}

Engine::Engine(const Options& options, std::vector<std::unique_ptr<ModelRunner>> runners)
    : options_(options), runners_(std::move(runners)) {
  for (const auto& runner : runners_) {
    models_.push_back(runner->info());
  }
  device_thread_ = std::thread([this] { DeviceLoop(); });
}

Engine::~Engine() {
  Drain();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  device_thread_.join();
}

ModelRunner* Engine::FindRunner(absl::string_view name) const {
  for (const auto& runner : runners_) {
    if (name.empty() || runner->info()->name == name) {
      return runner.get();
    }
  }
  return nullptr;
}

std::shared_ptr<const ModelInfo> Engine::FindModel(absl::string_view name) const {
  const ModelRunner* runner = FindRunner(name);
  return runner == nullptr ? nullptr : runner->info();
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
  ModelRunner* runner = FindRunner(job.model);
  if (runner == nullptr) {
    return absl::NotFoundError(absl::StrCat("model: '", job.model, "' is not loaded"));
  }
  if (!healthy()) {
    return UnhealthyError();
  }
  Entry entry;
  entry.tokens = InputTokens(*job.batch);
  entry.runner = runner;
  entry.job = std::move(job);
  entry.done = std::move(done);

  absl::MutexLock lock(&mutex_);
  if (draining_) {
    return absl::UnavailableError("this server is shutting down");
  }
  if (static_cast<int64_t>(queue_.size()) >= options_.max_queued_requests) {
    return WithRetryAfter(
        absl::ResourceExhaustedError(absl::StrCat(
            "queue full: ", queue_.size(), " requests wait, limit ", options_.max_queued_requests)),
        kRetryDelay);
  }
  // A request larger than the whole token budget may still run when nothing else waits.
  if (!queue_.empty() && entry.tokens > options_.max_queued_tokens - queued_tokens_) {
    return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                              "queue full: ", queued_tokens_, " tokens wait, and ", entry.tokens,
                              " more exceed the limit ", options_.max_queued_tokens)),
                          kRetryDelay);
  }
  queued_tokens_ += entry.tokens;
  queue_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<RequestPlan> Engine::Plan(const ScoreJob& job) const {
  const ModelRunner* runner = FindRunner(job.model);
  if (runner == nullptr) {
    return absl::NotFoundError(absl::StrCat("model: '", job.model, "' is not loaded"));
  }
  return RequestPlan::Create(job.batch, EffectiveRoute(job, *runner->info()),
                             options_.max_batch_tokens, TrieUse::kAlways);
}

void Engine::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  mutex_.Await(absl::Condition(
      +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
        return engine->queue_.empty() && !engine->running_;
      },
      this));
}

GraphUse Engine::graphs() const {
  GraphUse sum;
  for (const auto& runner : runners_) {
    const GraphUse use = runner->graphs();
    sum.count += use.count;
    sum.bytes += use.bytes;
  }
  return sum;
}

int64_t Engine::queued_requests() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(queue_.size());
}

void Engine::DeviceLoop() {
  while (true) {
    Entry entry;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](Engine* engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine->mutex_) {
            return engine->stopping_ || !engine->queue_.empty();
          },
          this));
      if (queue_.empty()) {
        return;
      }
      entry = std::move(queue_.front());
      queue_.pop_front();
      queued_tokens_ -= entry.tokens;
      running_ = true;
    }
    Answer(entry);
    absl::MutexLock lock(&mutex_);
    running_ = false;
  }
}

void Engine::Answer(const Entry& entry) {
  absl::StatusOr<ScoreResult> result = healthy() ? Run(entry) : UnhealthyError();
  if (absl::IsUnavailable(result.status()) && healthy_.exchange(false)) {
    LogError("device_lost", {{"error", std::string(result.status().message())}});
  }
  entry.done(std::move(result));
}

absl::StatusOr<ScoreResult> Engine::Run(const Entry& entry) {
  const double queue_ms = entry.waiting.ElapsedMs();
  CANOPY_ASSIGN_OR_RETURN(ScoreResult result,
                          RunJob(entry.job, EffectiveRoute(entry.job, *entry.runner->info()),
                                 options_.max_batch_tokens, *entry.runner));
  result.times.queue_ms = queue_ms;
  LogFallbackOnce(result.route);
  return result;
}

void Engine::LogFallbackOnce(const Route& route) {
  // Small batches and wishes are no fallbacks.
  if (route.reason == Reason::kNone || route.reason == Reason::kSmallBatch ||
      route.reason == Reason::kRequested || route.reason == Reason::kMeasured) {
    return;
  }
  if (logged_reasons_.insert(route.reason).second) {
    LogWarning("route_fallback",
               {{"backend", BackendName(route.backend)}, {"reason", ReasonName(route.reason)}});
  }
}

}  // namespace canopy
