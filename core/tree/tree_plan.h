// Everything the device needs for one forward, computed on the host: immutable once built. The
// grid's layouts are drawn in token_grid.h, the segments in segments.h.
#ifndef CORE_TREE_TREE_PLAN_H_
#define CORE_TREE_TREE_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tree/measured_route.h"
#include "core/tree/parts.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/route_costs.h"
#include "core/tree/segments.h"
#include "core/tree/token_grid.h"
#include "core/tree/trie.h"

namespace canopy {

struct TreePlan {
  Backend backend = Backend::kPath;
  TokenGrid grid;
  std::optional<SegmentPlan> segments;  // kSegmented only
  std::vector<int32_t> paths;           // paths answered by this plan, as indices of the request
  std::vector<int32_t> endpoints;       // [paths] flat grid slot of each one's last token
  std::vector<int32_t> prefix_tokens;   // [paths] length of its question's prefix

  // Slots that the device runs, padding included.
  int64_t computed_tokens() const { return int64_t{grid.rows} * grid.columns; }
};

// Whether to build a trie although the rules could do without (Explain and pictures want one).
enum class TrieUse { kWhereNeeded, kAlways };

// What one backend would take for a request.
struct RouteForecast {
  Backend backend = Backend::kPath;
  RouteLoad load;
  double ms = 0;
};

// One request, planned and routed whole, then built in parts that respect a token budget.
// Immutable and thread-compatible; shares ownership of the batch.
class RequestPlan {
 public:
  // Plans `batch` by the rules of options.policy. INVALID_ARGUMENT for a malformed batch, a
  // negative mask budget, a max_batch_tokens below 1, or a path that alone is longer than it;
  // FAILED_PRECONDITION as ValidateRouteOptions.
  static absl::StatusOr<RequestPlan> Create(std::shared_ptr<const PathBatch> batch,
                                            const RouteOptions& options, int64_t max_batch_tokens,
                                            TrieUse trie_use = TrieUse::kWhereNeeded);

  const PathBatch& batch() const { return *batch_; }
  const PlanCounts& counts() const { return counts_; }
  const Route& route() const { return route_; }
  // Null where none was built.
  const Trie* trie() const { return trie_.get(); }
  // What the route takes by the costs that chose it; 0 where rules did.
  double forecast_ms() const { return forecast_ms_; }
  // What the route makes its backend run.
  RouteLoad load() const { return LoadOf(route_.backend, counts_, cut_.parts); }
  // Of every backend that may run, where costs chose, or were at hand and the trie was asked for.
  const std::vector<RouteForecast>& forecasts() const { return forecasts_; }

  // The same plan and route, cut for a smaller budget; unchanged where each of its parts fits that
  // budget already. INVALID_ARGUMENT as Create.
  absl::StatusOr<RequestPlan> CutSmaller(int64_t max_batch_tokens) const;

  // Forwards that the budget asks for: whole questions first, then paths of one question. Every
  // part uses the whole's route and answers paths that no other part does.
  int32_t num_parts() const { return static_cast<int32_t>(cut_.parts.size()); }

  // The paths of part `part` in 0 .. num_parts() - 1, in the order in which its plan has them.
  absl::Span<const PathRef> PartPaths(int32_t part) const;
  // Builds part `part` in 0 .. num_parts() - 1.
  TreePlan BuildPart(int32_t part) const;

 private:
  RequestPlan() = default;

  // The steps of Create, once the paths are counted.
  absl::Status MakeTrie(const RouteOptions& options);
  void RouteByRules(const RouteOptions& options, int64_t max_batch_tokens);
  void RouteByCost(const RouteOptions& options, int64_t max_batch_tokens);
  std::vector<RouteCandidate> Forecast(const RouteOptions& options, int64_t max_batch_tokens);

  std::shared_ptr<const PathBatch> batch_;
  std::shared_ptr<const Trie> trie_;
  PlanCounts counts_;
  Route route_;
  bool fused_shares_questions_ = false;
  // In which questions share nodes, where costs chose a way over it. One part has it all.
  std::shared_ptr<const Trie> shared_trie_;
  double forecast_ms_ = 0;
  std::vector<RouteForecast> forecasts_;
  PartList cut_;
};

}  // namespace canopy

#endif  // CORE_TREE_TREE_PLAN_H_
