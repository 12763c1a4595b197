// The vocabulary of routing: backends, layouts, reasons, counts and a caller's options.
#ifndef CORE_TREE_ROUTE_H_
#define CORE_TREE_ROUTE_H_

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "base/enum_table.h"

namespace canopy {

// Decides the backend of a request with Backend::kAuto: fixed rules on counts, or the lowest
// forecast cost.
enum class Policy { kReference, kMeasured };
enum class Backend { kAuto, kDense, kSegmented, kPath, kFused };
enum class Packing { kAuto, kPadded };
enum class Layout { kNone, kPadded, kFlat };
enum class Reason {
  kNone,  // The rules chose a tree backend, or the path backend by segment rules alone.
  kSmallBatch,
  kMaskBudget,
  kPaddingOverhead,
  kRequested,
  kMeasured,
  kUnsupportedLayers,
  kBackendFailed,
  kOutOfMemory,
  kNonFiniteRerun,
};

// The names of the values in answers, flags, metrics and logs.
inline constexpr NamedValue<Policy> kPolicies[] = {
    {Policy::kReference, "reference"},
    {Policy::kMeasured, "measured"},
};
inline constexpr NamedValue<Backend> kBackends[] = {
    {Backend::kAuto, "auto"}, {Backend::kDense, "dense"}, {Backend::kSegmented, "segmented"},
    {Backend::kPath, "path"}, {Backend::kFused, "fused"},
};
inline constexpr NamedValue<Packing> kPackings[] = {
    {Packing::kAuto, "auto"},
    {Packing::kPadded, "padded"},
};
inline constexpr NamedValue<Layout> kLayouts[] = {
    {Layout::kNone, ""},
    {Layout::kPadded, "padded"},
    {Layout::kFlat, "flat"},
};
struct ReasonRow {
  Reason value;
  absl::string_view name;
  bool is_fallback;  // true if the route differs from what the rules or the caller chose
};
inline constexpr ReasonRow kReasons[] = {
    {Reason::kNone, "", false},
    {Reason::kSmallBatch, "small_batch", false},
    {Reason::kMaskBudget, "mask_budget", true},
    {Reason::kPaddingOverhead, "padding_overhead", true},
    {Reason::kRequested, "requested", false},
    {Reason::kMeasured, "measured", false},
    {Reason::kUnsupportedLayers, "unsupported_layers", true},
    {Reason::kBackendFailed, "backend_failed", true},
    {Reason::kOutOfMemory, "out_of_memory", true},
    {Reason::kNonFiniteRerun, "non_finite_rerun", true},
};
static_assert(IsEnumTable(kPolicies, Policy::kMeasured));
static_assert(IsEnumTable(kBackends, Backend::kFused));
static_assert(IsEnumTable(kPackings, Packing::kPadded));
static_assert(IsEnumTable(kLayouts, Layout::kFlat));
static_assert(IsEnumTable(kReasons, Reason::kNonFiniteRerun));

constexpr absl::string_view PolicyName(Policy policy) { return NameOf(kPolicies, policy); }
constexpr absl::string_view BackendName(Backend backend) { return NameOf(kBackends, backend); }
constexpr absl::string_view LayoutName(Layout layout) { return NameOf(kLayouts, layout); }
constexpr absl::string_view ReasonName(Reason reason) { return NameOf(kReasons, reason); }

// The backends that a forward may run on, in the order in which they are measured and compared. The
// path backend is first, so that it wins a tie.
inline constexpr Backend kForwardBackends[] = {Backend::kPath, Backend::kDense, Backend::kSegmented,
                                               Backend::kFused};
static_assert(std::size(kForwardBackends) + 1 == std::size(kBackends), "all but kAuto");

// The backends that a model and its device support in addition to the path backend.
struct BackendSupport {
  bool trees = true;   // every layer is full attention
  bool fused = false;  // kernels for the model and device
};

// Returns true if forwards may run on `backend`. Precondition: `backend` is not kAuto.
bool CanRun(Backend backend, BackendSupport support);
// Returns kForwardBackends without those that cannot run.
std::vector<Backend> RunnableBackends(BackendSupport support);
// Returns the names of RunnableBackends for error messages, with path last, such as "dense,
// segmented, path". `name` returns the name of a backend.
std::string ListBackends(BackendSupport support, absl::FunctionRef<std::string(Backend)> name);
std::string ListBackends(BackendSupport support);

// A batch with fewer path tokens is not worth a trie.
inline constexpr int64_t kSmallBatchPathTokens = 1024;
inline constexpr int64_t kDefaultMaxMaskBytes = int64_t{64} << 20;

struct RouteCosts;  // core/tree/route_costs.h

// The options of a caller, and the properties of the model that the rules read.
struct RouteOptions {
  Policy policy = Policy::kReference;
  Backend backend = Backend::kAuto;
  Packing packing = Packing::kAuto;
  int64_t max_mask_bytes = kDefaultMaxMaskBytes;  // < 0 is an error; 0 = never a tree backend
  int32_t hidden_size = 0;
  // False if a layer is not full attention: AUTO then chooses path with kUnsupportedLayers.
  bool tree_supported = true;
  // True if kFused runs on this model and device. Otherwise a request for kFused is refused.
  bool fused_supported = false;
  // True if questions that begin with the same tokens may share them: on kFused and, if kFused is
  // not supported, on the backend that kMeasured chooses.
  bool share_questions = true;
  // If true, AUTO under kMeasured uses several forwards only if no backend can use a single one.
  bool one_forward = false;
  // The costs of backends on this model and device. Null = not measured; kMeasured is then refused.
  // Immutable.
  std::shared_ptr<const RouteCosts> costs;
};

// The work of a plan, padding included. The counts are int64 because forests are counted before
// their size is checked.
struct PlanCounts {
  int64_t path_tokens = 0;   // paths x longest path
  int64_t input_tokens = 0;  // sum of path lengths
  // These counts are zero if no trie was built.
  int64_t unique_tokens = 0;  // trie nodes
  int64_t forest_tokens = 0;  // layout rows x columns
  int64_t mask_bytes = 0;     // layout rows x columns^2 x 4
  int64_t visible_pairs = 0;  // sum over nodes of depth + 1
  // These counts are zero if no segments were built.
  int64_t segment_groups = 0;
  int64_t packed_queries = 0;   // sum over groups of rows x query length
  int64_t attention_pairs = 0;  // query-key pairs of all groups, padded queries included
  bool segment_suitable = false;
};

// The outcome of routing.
struct Route {
  Backend backend = Backend::kPath;
  Layout layout = Layout::kNone;
  Reason reason = Reason::kNone;
  Policy policy = Policy::kReference;
};

}  // namespace canopy

#endif  // CORE_TREE_ROUTE_H_
