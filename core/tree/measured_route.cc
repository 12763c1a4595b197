#include "core/tree/measured_route.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/checked_math.h"

namespace canopy {
namespace {

constexpr int64_t kMaskElementBytes = 4;

int64_t Squares(const Part& part) {
  return SaturatingMultiply(part.rows, SaturatingMultiply(part.columns, part.columns));
}

// A count of the whole request's forest, for the nodes that all parts have: a question that is cut
// computes its shared nodes in each part.
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
      return options.max_mask_bytes > 0 && input.counts.segment_suitable;
    case Backend::kFused:
      return options.max_mask_bytes > 0 && options.fused_supported;
    case Backend::kAuto:
      break;
  }
  return false;
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
  for (const Backend backend :
       {Backend::kPath, Backend::kDense, Backend::kSegmented, Backend::kFused}) {
    const auto cost = input.options.costs->backends.find(backend);
    RouteCandidate candidate;
    candidate.route = {backend, backend == Backend::kFused ? Layout::kFlat : input.layout,
                       Reason::kMeasured, Policy::kMeasured};
    candidate.cut = CutIntoParts(input.batch, &input.trie, candidate.route, input.max_batch_tokens);
    if (!MayRun(input, candidate)) {
      continue;
    }
    candidate.load = LoadOf(backend, input.counts, candidate.cut.parts);
    if (cost != input.options.costs->backends.end()) {
      candidate.ms = ForecastMs(cost->second, candidate.load);
    } else if (backend == Backend::kPath) {
      // It always runs, but nothing speaks for it.
      candidate.ms = std::numeric_limits<double>::infinity();
    } else {
      continue;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

const RouteCandidate& LeastCostly(const std::vector<RouteCandidate>& candidates) {
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [](const RouteCandidate& a, const RouteCandidate& b) { return a.ms < b.ms; });
}

}  // namespace canopy
