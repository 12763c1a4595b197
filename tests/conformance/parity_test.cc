// Compares every backend with what transformers computed from the same checkpoint. Run by
// parity_test.sh, which makes the checkpoints below the test's temporary folder first.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/torch_runner.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"
#include "tests/conformance/reference_cases.h"

namespace canopy {
namespace {

// float32 against float32, for every candidate.
constexpr double kMaxFloat32Error = 1e-4;
// Our bfloat16 error over transformers' bfloat16 error, both against float32 arithmetic on the same
// weights, over at least this many candidates.
constexpr double kMaxBFloat16ErrorRatio = 1.25;
constexpr size_t kMinBFloat16Candidates = 256;

struct RouteCase {
  const char* name;
  Backend backend;
  Packing packing;
  int64_t max_batch_tokens;
};

// The longest path has 256 tokens, so the last ones run in many parts.
constexpr RouteCase kRoutes[] = {
    {"path", Backend::kPath, Packing::kAuto, 1 << 20},
    {"dense", Backend::kDense, Packing::kAuto, 1 << 20},
    {"dense_padded", Backend::kDense, Packing::kPadded, 1 << 20},
    {"segmented", Backend::kSegmented, Packing::kAuto, 1 << 20},
    {"auto", Backend::kAuto, Packing::kAuto, 1 << 20},
    {"path_in_parts", Backend::kPath, Packing::kAuto, 300},
    {"dense_in_parts", Backend::kDense, Packing::kAuto, 300},
    {"segmented_in_parts", Backend::kSegmented, Packing::kPadded, 300},
};

class Checkpoint {
 public:
  Checkpoint(const std::string& name, const std::string& dtype) {
    const std::string folder = absl::StrCat(::testing::TempDir(), "/checkpoints/", name);
    TorchRunnerOptions options;
    options.name = name;
    options.source = folder;
    options.device = "cpu";
    options.dtype = dtype;
    // Small tensors: a second thread would only wait for the first.
    options.threads = 1;
    auto runner = LoadTorchRunner(options);
    EXPECT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    auto cases = ReadReferenceCases(folder);
    EXPECT_TRUE(cases.ok()) << cases.status();
    cases_ = *std::move(cases);
  }

  const std::map<std::string, ReferenceCase>& cases() const { return cases_; }
  ModelRunner& runner() const { return *runner_; }

  RequestPlan Plan(const ReferenceCase& item, const RouteCase& route) const {
    RouteOptions options;
    options.backend = route.backend;
    options.packing = route.packing;
    options.hidden_size = static_cast<int32_t>(runner_->info()->hidden_size);
    auto plan = RequestPlan::Create(item.batch, options, route.max_batch_tokens);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

 private:
  std::unique_ptr<ModelRunner> runner_;
  std::map<std::string, ReferenceCase> cases_;
};

double LargestRelativeError(const Matrix& actual, const Matrix& expected) {
  const std::vector<double> errors = SquaredRelativeErrors(actual, expected);
  return std::sqrt(*std::max_element(errors.begin(), errors.end()));
}

class ParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityTest, Float32MatchesTransformersForEveryCandidateAndBackend) {
  const Checkpoint checkpoint(GetParam(), "float32");
  std::set<std::pair<Backend, Layout>> seen;
  for (const auto& [name, item] : checkpoint.cases()) {
    for (const RouteCase& route : kRoutes) {
      const std::string what = absl::StrCat(name, " by ", route.name);
      const RequestPlan plan = checkpoint.Plan(item, route);
      seen.insert({plan.route().backend, plan.route().layout});
      const auto answer = RunPlan(checkpoint.runner(), plan);
      ASSERT_TRUE(answer.ok()) << what << answer.status();
      EXPECT_TRUE(answer->finite) << what;
      EXPECT_LE(LargestRelativeError(answer->vectors, item.vectors), kMaxFloat32Error) << what;
      ASSERT_EQ(answer->scores.values.size(), item.scores.values.size()) << what;
      for (size_t i = 0; i < item.scores.values.size(); ++i) {
        const double expected = item.scores.values[i];
        EXPECT_NEAR(answer->scores.values[i], expected, 1e-4 * (1 + std::abs(expected))) << what;
      }
    }
  }
  for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
    for (const Layout layout : {Layout::kFlat, Layout::kPadded}) {
      EXPECT_EQ(seen.count({backend, layout}), 1U) << BackendName(backend) << LayoutName(layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ParityTest,
                         ::testing::Values("base_f32", "causal_sharded_f32", "reward_f32",
                                           "causal_tied_bf16", "causal_reward_f32",
                                           "reward_bias_bf16", "base_bf16"),
                         [](const auto& info) { return std::string(info.param); });

class BFloat16ParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BFloat16ParityTest, ErrorIsNoLargerThanThatOfTransformers) {
  const Checkpoint checkpoint(GetParam(), "bfloat16");
  for (const RouteCase& route : kRoutes) {
    double ours = 0;
    double theirs = 0;
    size_t candidates = 0;
    for (const auto& [name, item] : checkpoint.cases()) {
      const auto answer = RunPlan(checkpoint.runner(), checkpoint.Plan(item, route));
      ASSERT_TRUE(answer.ok()) << name << answer.status();
      for (const double error : SquaredRelativeErrors(answer->vectors, item.vectors)) {
        ours += error;
      }
      for (const double error : SquaredRelativeErrors(item.vectors_bf16, item.vectors)) {
        theirs += error;
        ++candidates;
      }
    }
    EXPECT_GE(candidates, kMinBFloat16Candidates);
    EXPECT_GT(theirs, 0);
    const double ratio = std::sqrt(ours / theirs);
    EXPECT_LE(ratio, kMaxBFloat16ErrorRatio) << route.name;
    RecordProperty(absl::StrCat(route.name, "_error_ratio"), absl::StrCat(ratio));
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, BFloat16ParityTest,
                         ::testing::Values("causal_tied_bf16", "reward_bias_bf16", "base_bf16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace canopy
