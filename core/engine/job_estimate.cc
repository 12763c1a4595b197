#include "core/engine/job_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "core/tree/route_costs.h"
#include "core/tree/router.h"
#include "core/tree/work_estimate.h"

namespace canopy {
namespace {

constexpr int64_t kFloatBytes = 4;
// The limit keeps sums of many estimates far from an overflow.
constexpr int64_t kMaxEstimate = int64_t{1} << 40;

int64_t Limited(int64_t count) { return std::clamp<int64_t>(count, 1, kMaxEstimate); }

uint32_t Bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Values are counted for each token as sent, like the lists of scored tokens.
int64_t ResultBytes(const ScoreJob& job, const ModelInfo& model, int64_t input_tokens) {
  int64_t total = 0;
  for (const OutputSpec& spec : kOutputs) {
    const int64_t entries =
        spec.unit == OutputUnit::kCandidate ? job.batch->num_paths() : input_tokens;
    total = SaturatingAdd(total,
                          SaturatingMultiply(entries, EntryBytes(model, job.outputs, spec.output)));
  }
  return total;
}

// Under the reference policy a backend is chosen for each request alone. Under the measured policy
// AUTO may share forwards, with the backend that the costs choose.
bool MayShare(const RouteOptions& route) {
  if (route.backend == Backend::kFused) {
    return route.fused_supported && route.max_mask_bytes >= 0;
  }
  const bool can_by_cost = IsRoutedByCost(route) && route.costs != nullptr;
  return can_by_cost && route.max_mask_bytes > 0;
}

// Returns the lower bound of a backend's time by its measured cost. Only the cost of tokens counts:
// requests share the cost of a forward, and pairs are not counted yet. Questions with a common
// beginning share tokens, so only the tokens of the largest question are certain.
int64_t ForecastNanos(const WorkEstimate& work, const RouteOptions& route) {
  if (!IsRoutedByCost(route) || route.costs == nullptr || work.largest_question_tokens == 0) {
    return 0;
  }
  double min_ms = std::numeric_limits<double>::infinity();
  for (const auto& [backend, cost] : route.costs->backends) {
    if (backend == Backend::kFused && !route.fused_supported) {
      continue;
    }
    const int64_t tokens =
        backend == Backend::kPath ? work.input_tokens : work.largest_question_tokens;
    min_ms = std::min(min_ms, cost.token_ms * static_cast<double>(tokens));
  }
  constexpr double kNanosPerMs = 1e6;
  constexpr double kMaxMs = 1e9;
  return std::isinf(min_ms) ? 0 : static_cast<int64_t>(std::min(min_ms, kMaxMs) * kNanosPerMs);
}

// Returns equal keys for selections that are computed in the same way.
std::string OutputsKey(const OutputSelection& outputs) {
  // Names every option, so that a new one does not compile before it enters the key.
  const auto& [vector_type, normalize, scope, temperature] =
      static_cast<const OutputOptions&>(outputs);
  std::string key = absl::StrCat(" ", static_cast<int>(vector_type), " ", normalize, " ",
                                 static_cast<int>(scope), " ", Bits(temperature));
  for (const OutputSpec& spec : kOutputs) {
    absl::StrAppend(&key, " ", AmountOf(outputs, spec.output));
  }
  return key;
}

}  // namespace

JobEstimate EstimateJob(const ScoreJob& job, const RouteOptions& route, const ModelInfo& model) {
  const WorkEstimate work = EstimateWork(*job.batch, route);
  JobEstimate estimate;
  estimate.tokens = Limited(work.computed_tokens);
  estimate.device_bytes =
      Limited(SaturatingAdd(SaturatingMultiply(estimate.tokens, model.hidden_size * kFloatBytes),
                            ResultBytes(job, model, work.input_tokens)));
  estimate.forecast_nanos = ForecastNanos(work, route);
  return estimate;
}

std::string ShareKey(const ScoreJob& job, const RouteOptions& route, const ModelInfo& model,
                     bool across_tenants) {
  if (!MayShare(route)) {
    return "";
  }
  // The lengths come first, so that different names never give the same key.
  const std::string& tenant = across_tenants ? "" : job.tenant;
  return absl::StrCat(model.name.size(), ":", model.name, tenant.size(), ":", tenant, " ",
                      static_cast<int>(route.policy), " ", static_cast<int>(route.backend), " ",
                      static_cast<int>(route.packing), " ", route.max_mask_bytes,
                      OutputsKey(job.outputs));
}

}  // namespace canopy
