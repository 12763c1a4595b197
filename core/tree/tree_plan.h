// Plans a request on the host: everything that the device needs for its forwards. Plans are
// immutable. The layouts of the grid are drawn in token_grid.h, segments in segments.h.
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
  std::vector<int32_t> paths;           // [paths] indices of this plan's paths in the request
  std::vector<int32_t> endpoints;       // [paths] flat grid slot of each path's last token
  std::vector<int32_t> prefix_tokens;   // [paths] length of its question's prefix

  // Returns the number of slots that the device runs, padding included.
  int64_t computed_tokens() const { return int64_t{grid.rows} * grid.columns; }
};

// Decides if a trie is built even though the rules need none. Explain and the pictures use kAlways.
enum class TrieUse { kWhereNeeded, kAlways };

// The forecast time of a request on one backend.
struct RouteForecast {
  Backend backend = Backend::kPath;
  RouteLoad load;
  double ms = 0;
};

// A request that is planned and routed as a whole. Its forwards are built in parts that respect a
// token budget. Immutable and thread-compatible; shares ownership of the batch.
class RequestPlan {
 public:
  // Plans `batch` under options.policy. Returns INVALID_ARGUMENT for a malformed batch, a negative
  // mask budget, a max_batch_tokens below 1, or a path longer than max_batch_tokens. Returns
  // FAILED_PRECONDITION in the cases of ValidateRouteOptions.
  static absl::StatusOr<RequestPlan> Create(std::shared_ptr<const PathBatch> batch,
                                            const RouteOptions& options, int64_t max_batch_tokens,
                                            TrieUse trie_use = TrieUse::kWhereNeeded);

  const PathBatch& batch() const { return *batch_; }
  const PlanCounts& counts() const { return counts_; }
  const Route& route() const { return route_; }
  // Returns null if no trie was built.
  const Trie* trie() const { return trie_.get(); }
  // Returns the forecast time of the route, or 0 if rules chose it.
  double forecast_ms() const { return forecast_ms_; }
  // Returns the work of the route on its backend.
  RouteLoad load() const { return LoadOf(route_.backend, counts_, cut_.parts); }
  // Returns the forecasts of all backends that may run. Empty unless costs chose the route, or
  // costs were given and `trie_use` was kAlways.
  const std::vector<RouteForecast>& forecasts() const { return forecasts_; }

  // Returns the same plan and route, cut for a smaller budget, or an unchanged copy if each part
  // fits the budget already. Returns INVALID_ARGUMENT in the cases of Create.
  absl::StatusOr<RequestPlan> CutSmaller(int64_t max_batch_tokens) const;

  // Returns the number of forwards. Whole questions are grouped first, then paths of one question.
  // All parts have the same route, and each path belongs to exactly one part.
  int32_t num_parts() const { return static_cast<int32_t>(cut_.parts.size()); }

  // Returns the paths of part `part` in 0 .. num_parts() - 1, in the order of its plan.
  absl::Span<const PathRef> PartPaths(int32_t part) const;
  // Builds part `part` in 0 .. num_parts() - 1.
  TreePlan BuildPart(int32_t part) const;

 private:
  RequestPlan() = default;

  // The steps of Create after the paths are counted.
  absl::Status MakeTrie(const RouteOptions& options);
  void RouteByRules(const RouteOptions& options, int64_t max_batch_tokens);
  void RouteByCost(const RouteOptions& options, int64_t max_batch_tokens);
  std::vector<RouteCandidate> Forecast(const RouteOptions& options, int64_t max_batch_tokens);

  std::shared_ptr<const PathBatch> batch_;
  std::shared_ptr<const Trie> trie_;
  PlanCounts counts_;
  Route route_;
  bool fused_shares_questions_ = false;
  // The trie in which questions share nodes, if costs chose it; the plan then has one part.
  std::shared_ptr<const Trie> shared_trie_;
  double forecast_ms_ = 0;
  std::vector<RouteForecast> forecasts_;
  PartList cut_;
};

}  // namespace canopy

#endif  // CORE_TREE_TREE_PLAN_H_
