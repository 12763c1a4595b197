// Tests the reference policy at each of its boundaries, and exhaustively against its definition.
#include "core/tree/router.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr int64_t kBudget = 1 << 20;

// Runs the three stages of routing as a planner does.
Route Decide(const RouteOptions& options, const PlanCounts& counts) {
  if (const auto route = RouteWithoutTrie(options, counts)) {
    return *route;
  }
  if (const auto route = RouteWithoutSegments(options, counts)) {
    return *route;
  }
  return RouteWithSegments(options, counts);
}

RouteOptions Options(Backend backend) {
  RouteOptions options;
  options.backend = backend;
  options.max_mask_bytes = kBudget;
  options.hidden_size = kMinSegmentedHiddenSize;
  return options;
}

// Returns the counts of a batch that AUTO sends to dense: three groups, and a mask that fits.
PlanCounts DenseCounts() {
  PlanCounts counts;
  counts.path_tokens = kSmallBatchPathTokens;
  counts.forest_tokens = counts.path_tokens / 2;
  counts.mask_bytes = kBudget;
  counts.segment_groups = kMaxPreferredSegmentGroups + 1;
  counts.segment_suitable = true;
  return counts;
}

void ExpectRoute(const Route& route, Backend backend, Reason reason) {
  EXPECT_EQ(BackendName(route.backend), BackendName(backend));
  EXPECT_EQ(ReasonName(route.reason), ReasonName(reason));
}

TEST(Router, AutoTakesPathBelow1024PathTokens) {
  PlanCounts counts = DenseCounts();
  counts.path_tokens = 1024;
  ExpectRoute(Decide(Options(Backend::kAuto), counts), Backend::kDense, Reason::kNone);
  counts.path_tokens = 1023;
  ExpectRoute(Decide(Options(Backend::kAuto), counts), Backend::kPath, Reason::kSmallBatch);
}

TEST(Router, NamedTreeBackendsTakeSmallBatches) {
  PlanCounts counts = DenseCounts();
  counts.path_tokens = 1023;
  ExpectRoute(Decide(Options(Backend::kDense), counts), Backend::kDense, Reason::kNone);
  ExpectRoute(Decide(Options(Backend::kSegmented), counts), Backend::kSegmented, Reason::kNone);
}

TEST(Router, SmallBatchIsNamedBeforeAnEmptyBudget) {
  RouteOptions options = Options(Backend::kAuto);
  options.max_mask_bytes = 0;
  PlanCounts counts = DenseCounts();
  counts.path_tokens = 1023;
  ExpectRoute(Decide(options, counts), Backend::kPath, Reason::kSmallBatch);
}

TEST(Router, BudgetZeroAlwaysTakesPath) {
  for (const Backend backend : {Backend::kAuto, Backend::kDense, Backend::kSegmented}) {
    RouteOptions options = Options(backend);
    options.max_mask_bytes = 0;
    PlanCounts counts = DenseCounts();
    ExpectRoute(Decide(options, counts), Backend::kPath, Reason::kMaskBudget);
    counts.forest_tokens = counts.path_tokens;
    ExpectRoute(Decide(options, counts), Backend::kPath, Reason::kMaskBudget);
  }
}

TEST(Router, ForestAsLargeAsThePathsTakesPath) {
  for (const Backend backend : {Backend::kAuto, Backend::kDense, Backend::kSegmented}) {
    PlanCounts counts = DenseCounts();
    counts.forest_tokens = counts.path_tokens;
    ExpectRoute(Decide(Options(backend), counts), Backend::kPath, Reason::kPaddingOverhead);
    counts.forest_tokens = counts.path_tokens - 1;
    EXPECT_EQ(Decide(Options(backend), counts).reason, Reason::kNone);
  }
}

TEST(Router, MaskExactlyAtTheBudgetFits) {
  PlanCounts counts = DenseCounts();
  counts.segment_suitable = false;
  for (const Backend backend : {Backend::kAuto, Backend::kDense, Backend::kSegmented}) {
    const Backend expected = backend == Backend::kAuto ? Backend::kDense : backend;
    counts.mask_bytes = kBudget;
    ExpectRoute(Decide(Options(backend), counts), expected, Reason::kNone);
    counts.mask_bytes = kBudget + 1;
    ExpectRoute(Decide(Options(backend), counts), Backend::kPath, Reason::kMaskBudget);
  }
}

TEST(Router, SuitableSegmentsNeedNoMask) {
  PlanCounts counts = DenseCounts();
  counts.mask_bytes = kBudget + 1;
  ExpectRoute(Decide(Options(Backend::kAuto), counts), Backend::kSegmented, Reason::kNone);
  ExpectRoute(Decide(Options(Backend::kSegmented), counts), Backend::kSegmented, Reason::kNone);
  ExpectRoute(Decide(Options(Backend::kDense), counts), Backend::kPath, Reason::kMaskBudget);
}

TEST(Router, AutoPrefersSegmentsUpToTwoGroups) {
  PlanCounts counts = DenseCounts();
  counts.segment_groups = 2;
  ExpectRoute(Decide(Options(Backend::kAuto), counts), Backend::kSegmented, Reason::kNone);
  counts.segment_groups = 3;
  ExpectRoute(Decide(Options(Backend::kAuto), counts), Backend::kDense, Reason::kNone);
}

TEST(Router, AutoPrefersSegmentsFromHiddenSize128) {
  PlanCounts counts = DenseCounts();
  counts.segment_groups = 2;
  RouteOptions options = Options(Backend::kAuto);
  options.hidden_size = 128;
  ExpectRoute(Decide(options, counts), Backend::kSegmented, Reason::kNone);
  options.hidden_size = 127;
  ExpectRoute(Decide(options, counts), Backend::kDense, Reason::kNone);
}

TEST(Router, AutoNeedsSuitableSegmentsToPreferThem) {
  PlanCounts counts = DenseCounts();
  counts.segment_groups = 1;
  counts.segment_suitable = false;
  ExpectRoute(Decide(Options(Backend::kAuto), counts), Backend::kDense, Reason::kNone);
}

TEST(Router, NamedPathIsNeverReplaced) {
  for (const int64_t budget : {int64_t{0}, kBudget}) {
    for (const int64_t path_tokens : {int64_t{1}, int64_t{1} << 30}) {
      RouteOptions options = Options(Backend::kPath);
      options.max_mask_bytes = budget;
      PlanCounts counts = DenseCounts();
      counts.path_tokens = path_tokens;
      ExpectRoute(Decide(options, counts), Backend::kPath, Reason::kRequested);
    }
  }
}

TEST(Router, UnsupportedLayersTakePath) {
  RouteOptions options = Options(Backend::kAuto);
  options.tree_supported = false;
  ASSERT_TRUE(ValidateRouteOptions(options).ok());
  ExpectRoute(Decide(options, DenseCounts()), Backend::kPath, Reason::kUnsupportedLayers);
  options.backend = Backend::kPath;
  ASSERT_TRUE(ValidateRouteOptions(options).ok());
  ExpectRoute(Decide(options, DenseCounts()), Backend::kPath, Reason::kRequested);
}

TEST(Router, RefusesWhatItCannotRun) {
  RouteOptions options = Options(Backend::kFused);
  const absl::Status status = ValidateRouteOptions(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "backend: fused does not run on this model and device; it has: dense, segmented, path");
  for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
    options = Options(backend);
    EXPECT_TRUE(ValidateRouteOptions(options).ok());
    options.tree_supported = false;
    EXPECT_EQ(ValidateRouteOptions(options).code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(Router, FusedRunsWhereItIsSupportedAndOnlyWhenAskedFor) {
  RouteOptions options = Options(Backend::kFused);
  options.fused_supported = true;
  options.max_mask_bytes = 0;
  ASSERT_TRUE(ValidateRouteOptions(options).ok());
  PlanCounts small = DenseCounts();
  small.path_tokens = 1;
  ExpectRoute(Decide(options, small), Backend::kFused, Reason::kRequested);
  ExpectRoute(Decide(options, DenseCounts()), Backend::kFused, Reason::kRequested);
  options = Options(Backend::kAuto);
  options.fused_supported = true;
  ExpectRoute(Decide(options, DenseCounts()), Backend::kDense, Reason::kNone);
}

TEST(Router, RefusesNegativeBudgetAndUnknownValues) {
  RouteOptions options = Options(Backend::kPath);
  options.max_mask_bytes = -1;
  const absl::Status status = ValidateRouteOptions(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("max_mask_bytes: -1"));

  options = Options(static_cast<Backend>(17));
  EXPECT_EQ(ValidateRouteOptions(options).code(), absl::StatusCode::kInvalidArgument);
  options = Options(Backend::kAuto);
  options.packing = static_cast<Packing>(17);
  EXPECT_EQ(ValidateRouteOptions(options).code(), absl::StatusCode::kInvalidArgument);
}

// Defines the policy step by step: each step either returns a route with its reason or continues.
Route Definition(const RouteOptions& options, const PlanCounts& counts) {
  const bool automatic = options.backend == Backend::kAuto;
  const int64_t budget = options.max_mask_bytes;
  if (automatic && counts.path_tokens < 1024) {
    return {Backend::kPath, Layout::kNone, Reason::kSmallBatch};
  }
  if (budget == 0) {
    return {Backend::kPath, Layout::kNone, Reason::kMaskBudget};
  }
  if (counts.forest_tokens >= counts.path_tokens) {
    return {Backend::kPath, Layout::kNone, Reason::kPaddingOverhead};
  }
  if (counts.mask_bytes > budget && !counts.segment_suitable) {
    return {Backend::kPath, Layout::kNone, Reason::kMaskBudget};
  }
  if (options.backend == Backend::kSegmented) {
    return {Backend::kSegmented, Layout::kNone, Reason::kNone};
  }
  if (automatic && counts.segment_suitable &&
      (counts.mask_bytes > budget ||
       (counts.segment_groups <= 2 && options.hidden_size >= 128 && counts.path_tokens >= 1024))) {
    return {Backend::kSegmented, Layout::kNone, Reason::kNone};
  }
  if (counts.mask_bytes > budget) {
    return {Backend::kPath, Layout::kNone, Reason::kMaskBudget};
  }
  return {Backend::kDense, Layout::kNone, Reason::kNone};
}

TEST(Router, AgreesWithTheDefinitionAroundEveryBoundary) {
  std::vector<PlanCounts> all_counts;
  for (const int64_t path_tokens : {1, 1023, 1024, 1025, 5000}) {
    for (const int64_t spared : {-1, 0, 1, 500}) {
      for (const int64_t mask_bytes : {kBudget - 1, kBudget, kBudget + 1}) {
        for (const int64_t groups : {1, 2, 3, 4, 5}) {
          for (const bool suitable : {false, true}) {
            PlanCounts counts;
            counts.path_tokens = path_tokens;
            counts.forest_tokens = path_tokens - spared;
            counts.mask_bytes = mask_bytes;
            counts.segment_groups = groups;
            counts.segment_suitable = suitable;
            all_counts.push_back(counts);
          }
        }
      }
    }
  }
  for (const Backend backend : {Backend::kAuto, Backend::kDense, Backend::kSegmented}) {
    for (const int64_t budget : {int64_t{0}, int64_t{1}, kBudget}) {
      for (const int32_t hidden_size : {0, 127, 128, 129}) {
        RouteOptions options = Options(backend);
        options.max_mask_bytes = budget;
        options.hidden_size = hidden_size;
        for (const PlanCounts& counts : all_counts) {
          const Route expected = Definition(options, counts);
          ExpectRoute(Decide(options, counts), expected.backend, expected.reason);
        }
      }
    }
  }
}

TEST(RouteNames, StandAsInTheContract) {
  EXPECT_EQ(BackendName(Backend::kAuto), "auto");
  EXPECT_EQ(BackendName(Backend::kFused), "fused");
  EXPECT_EQ(LayoutName(Layout::kNone), "");
  EXPECT_EQ(LayoutName(Layout::kPadded), "padded");
  EXPECT_EQ(LayoutName(Layout::kFlat), "flat");
  EXPECT_EQ(ReasonName(Reason::kNone), "");
  EXPECT_EQ(ReasonName(Reason::kSmallBatch), "small_batch");
  EXPECT_EQ(ReasonName(Reason::kMaskBudget), "mask_budget");
  EXPECT_EQ(ReasonName(Reason::kPaddingOverhead), "padding_overhead");
  EXPECT_EQ(ReasonName(Reason::kRequested), "requested");
  EXPECT_EQ(ReasonName(Reason::kMeasured), "measured");
  EXPECT_EQ(ReasonName(Reason::kUnsupportedLayers), "unsupported_layers");
  EXPECT_EQ(ReasonName(Reason::kBackendFailed), "backend_failed");
  EXPECT_EQ(ReasonName(Reason::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(ReasonName(Reason::kNonFiniteRerun), "non_finite_rerun");
}

TEST(Router, MeasuredNeedsCosts) {
  RouteOptions options = Options(Backend::kAuto);
  options.policy = Policy::kMeasured;
  const absl::Status status = ValidateRouteOptions(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("it has: reference"));
}

}  // namespace
}  // namespace canopy
