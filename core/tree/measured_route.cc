#include "core/tree/measured_route.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/checked_math.h"

namespace canopy {
namespace {

constexpr int64_t kMaskElementBytes = 4;
// The most groups of segments over shared nodes. Limits the host's work.
constexpr int64_t kMaxSharedSegmentGroups = 64;

int64_t Squares(const Part& part) {
  return SaturatingMultiply(part.rows, SaturatingMultiply(part.columns, part.columns));
}

// Scales a count of the whole request's forest to the nodes of all parts. If a question is cut,
// each of its parts computes the shared nodes again.
int64_t ScaleToParts(int64_t count, const PlanCounts& counts, const std::vector<Part>& parts) {
  int64_t nodes = 0;
  for (const Part& part : parts) {
    nodes += part.nodes;
  }
  if (nodes == counts.unique_tokens) {
    return count;
  }
  return static_cast<int64_t>(static_cast<double>(count) * static_cast<double>(nodes) /
                              static_cast<double>(std::max<int64_t>(counts.unique_tokens, 1)));
}

bool MasksFit(const std::vector<Part>& parts, int64_t max_mask_bytes) {
  return std::all_of(parts.begin(), parts.end(), [max_mask_bytes](const Part& part) {
    return SaturatingMultiply(Squares(part), kMaskElementBytes) <= max_mask_bytes;
  });
}

bool MayRun(const CandidateInput& input, const RouteCandidate& candidate) {
  const RouteOptions& options = input.options;
  switch (candidate.route.backend) {
    case Backend::kPath:
      return true;
    case Backend::kDense:
      return options.max_mask_bytes > 0 && MasksFit(candidate.cut.parts, options.max_mask_bytes);
    case Backend::kSegmented:
      return options.max_mask_bytes > 0 &&
             (candidate.shared_trie != nullptr
                  ? candidate.counts.segment_groups <= kMaxSharedSegmentGroups &&
                        candidate.counts.packed_queries <= candidate.counts.path_tokens
                  : candidate.counts.segment_suitable);
    case Backend::kFused:
      return options.max_mask_bytes > 0 && options.fused_supported;
    case Backend::kAuto:
      break;
  }
  return false;
}

// Returns nullopt if the candidate may not run, or has no measured costs.
std::optional<RouteCandidate> Forecast(const CandidateInput& input, RouteCandidate candidate) {
  if (!MayRun(input, candidate)) {
    return std::nullopt;
  }
  const Backend backend = candidate.route.backend;
  const auto cost = input.options.costs->backends.find(backend);
  const bool is_measured = cost != input.options.costs->backends.end();
  // A backend without measured costs has no forecast. The path backend always runs, so it remains a
  // candidate with an infinite forecast.
  if (!is_measured && backend != Backend::kPath) {
    return std::nullopt;
  }
  candidate.load = LoadOf(backend, candidate.counts, candidate.cut.parts);
  const bool is_unwanted = input.options.one_forward && candidate.cut.parts.size() > 1;
  candidate.ms = is_measured && !is_unwanted ? ForecastMs(cost->second, candidate.load)
                                             : std::numeric_limits<double>::infinity();
  return candidate;
}

Route MeasuredRoute(Backend backend, Layout layout) {
  return {backend, layout, Reason::kMeasured, Policy::kMeasured};
}

std::optional<RouteCandidate> Apart(const CandidateInput& input, Backend backend) {
  RouteCandidate candidate;
  candidate.route =
      MeasuredRoute(backend, backend == Backend::kFused ? Layout::kFlat : input.layout);
  candidate.cut = CutIntoParts(input.batch, &input.trie, candidate.route, input.max_batch_tokens);
  candidate.counts = input.counts;
  return Forecast(input, std::move(candidate));
}

std::optional<RouteCandidate> Shared(const CandidateInput& input, Backend backend) {
  if (input.shared_trie == nullptr ||
      (backend != Backend::kDense && backend != Backend::kSegmented)) {
    return std::nullopt;
  }
  std::optional<PartList> cut = OnePart(input.batch, input.trie, backend,
                                        input.shared_trie->num_nodes(), input.max_batch_tokens);
  if (!cut.has_value()) {
    return std::nullopt;
  }
  RouteCandidate candidate;
  candidate.route = MeasuredRoute(backend, Layout::kFlat);
  candidate.cut = *std::move(cut);
  candidate.counts = input.shared_counts;
  candidate.shared_trie = input.shared_trie;
  return Forecast(input, std::move(candidate));
}

}  // namespace

RouteLoad LoadOf(Backend backend, const PlanCounts& counts, const std::vector<Part>& parts) {
  RouteLoad load;
  load.forwards = static_cast<int64_t>(parts.size());
  int64_t squares = 0;
  for (const Part& part : parts) {
    load.tokens += part.rows * part.columns;
    squares = SaturatingAdd(squares, Squares(part));
  }
  switch (backend) {
    case Backend::kSegmented:
      load.groups = counts.segment_groups * load.forwards;
      load.pairs = ScaleToParts(counts.attention_pairs, counts, parts);
      break;
    case Backend::kFused:
      load.pairs = ScaleToParts(counts.visible_pairs, counts, parts);
      break;
    default:
      load.pairs = squares;
  }
  return load;
}

std::vector<RouteCandidate> RouteCandidates(const CandidateInput& input) {
  std::vector<RouteCandidate> candidates;
  for (const Backend backend : kForwardBackends) {
    std::optional<RouteCandidate> candidate = Apart(input, backend);
    std::optional<RouteCandidate> shared = Shared(input, backend);
    if (shared.has_value() && (!candidate.has_value() || shared->ms < candidate->ms)) {
      candidate = std::move(shared);
    }
    if (candidate.has_value()) {
      candidates.push_back(*std::move(candidate));
    }
  }
  return candidates;
}

const RouteCandidate& LeastCostly(const std::vector<RouteCandidate>& candidates) {
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [](const RouteCandidate& a, const RouteCandidate& b) { return a.ms < b.ms; });
}

}  // namespace canopy
