// Compares every backend with what transformers computed from the same checkpoint. Run by
// parity_test.sh, which makes the checkpoints below the test's temporary folder first.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/torch_runner.h"
#include "core/model/checkpoint.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// float32 against float32, for every candidate.
constexpr double kMaxFloat32Error = 1e-4;
// Our bfloat16 error over transformers' bfloat16 error, both against float32 arithmetic on the same
// weights, over at least this many candidates.
constexpr double kMaxBFloat16ErrorRatio = 1.25;
constexpr int kMinBFloat16Candidates = 256;

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  const float* Row(int64_t row) const { return values.data() + row * columns; }
};

struct Case {
  std::shared_ptr<const PathBatch> batch;
  Matrix vectors;
  Matrix vectors_bf16;  // of bfloat16 checkpoints
  Matrix scores;        // of checkpoints with a reward head
};

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

Matrix ToMatrix(const TensorView* view) {
  Matrix matrix;
  if (view != nullptr) {
    matrix.rows = view->shape[0];
    matrix.columns = view->shape[1];
    matrix.values.resize(static_cast<size_t>(matrix.rows * matrix.columns));
    std::memcpy(matrix.values.data(), view->bytes.data(), view->bytes.size());
  }
  return matrix;
}

std::map<std::string, Case> ReadCases(const std::string& folder) {
  const absl::StatusOr<WeightSource> results = OpenCheckpoint(folder + "/oracle");
  EXPECT_TRUE(results.ok()) << results.status();
  std::ifstream file(folder + "/oracle/cases.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  std::map<std::string, Case> cases;
  for (const auto& [name, questions] : json.items()) {
    Case& item = cases[name];
    auto batch = std::make_shared<PathBatch>();
    batch->question_offsets = {0};
    for (const nlohmann::json& question : questions) {
      batch->AddQuestion(question["prefix"].get<std::vector<int32_t>>(),
                         question["candidates"].get<std::vector<std::vector<int32_t>>>());
    }
    item.batch = batch;
    item.vectors = ToMatrix(results->Find(name + ".vectors"));
    item.vectors_bf16 = ToMatrix(results->Find(name + ".vectors_bf16"));
    item.scores = ToMatrix(results->Find(name + ".scores"));
  }
  return cases;
}

std::unique_ptr<ModelRunner> Load(const std::string& folder, const std::string& dtype) {
  TorchRunnerOptions options;
  options.name = "model";
  options.source = folder;
  options.device = "cpu";
  options.dtype = dtype;
  // Small tensors: a second thread would only wait for the first.
  options.threads = 1;
  absl::StatusOr<std::unique_ptr<ModelRunner>> runner = LoadTorchRunner(options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? *std::move(runner) : nullptr;
}

struct Answer {
  Matrix vectors;
  Matrix scores;
  Route route;
};

// Plans, runs and reassembles a whole request.
Answer RunCase(ModelRunner& runner, const Case& item, const RouteCase& route) {
  const ModelInfo& info = *runner.info();
  RouteOptions options;
  options.backend = route.backend;
  options.packing = route.packing;
  options.hidden_size = static_cast<int32_t>(info.hidden_size);
  const absl::StatusOr<RequestPlan> plan =
      RequestPlan::Create(item.batch, options, route.max_batch_tokens);
  EXPECT_TRUE(plan.ok()) << plan.status();
  OutputSelection outputs;
  outputs.vectors = true;
  outputs.scores = info.num_labels > 0;

  Answer answer;
  answer.route = plan->route();
  const auto num_paths = static_cast<size_t>(item.batch->num_paths());
  const auto hidden = static_cast<size_t>(info.hidden_size);
  const auto labels = static_cast<size_t>(info.num_labels);
  answer.vectors = {item.batch->num_paths(), info.hidden_size,
                    std::vector<float>(num_paths * hidden, NAN)};
  answer.scores = {item.batch->num_paths(), info.num_labels,
                   std::vector<float>(num_paths * labels, NAN)};
  for (int32_t part = 0; part < plan->num_parts(); ++part) {
    const TreePlan tree = plan->BuildPart(part);
    EXPECT_LE(tree.computed_tokens(), route.max_batch_tokens);
    const absl::StatusOr<PartOutput> output = runner.Run(tree, outputs);
    EXPECT_TRUE(output.ok()) << output.status();
    for (size_t i = 0; i < tree.paths.size(); ++i) {
      const auto path = static_cast<size_t>(tree.paths[i]);
      EXPECT_EQ(output->finite[i], 1);
      std::memcpy(answer.vectors.values.data() + path * hidden,
                  output->vectors.data() + i * hidden * sizeof(float), hidden * sizeof(float));
      std::copy_n(output->scores.begin() + static_cast<std::ptrdiff_t>(i * labels), labels,
                  answer.scores.values.begin() + static_cast<std::ptrdiff_t>(path * labels));
    }
  }
  return answer;
}

double SquaredNorm(const float* row, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += static_cast<double>(row[i]) * row[i];
  }
  return sum;
}

double SquaredDistance(const float* a, const float* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

// The largest relative error over the rows; NaN counts as infinite.
double LargestRowError(const Matrix& actual, const Matrix& expected) {
  EXPECT_EQ(actual.values.size(), expected.values.size());
  double largest = 0;
  for (int64_t row = 0; row < expected.rows; ++row) {
    const double error =
        std::sqrt(SquaredDistance(actual.Row(row), expected.Row(row), expected.columns) /
                  SquaredNorm(expected.Row(row), expected.columns));
    largest = std::isfinite(error) ? std::max(largest, error) : INFINITY;
  }
  return largest;
}

std::string Folder(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/checkpoints/", name);
}

class ParityTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ParityTest, Float32MatchesTransformersForEveryCandidateAndBackend) {
  const std::unique_ptr<ModelRunner> runner = Load(Folder(GetParam()), "float32");
  ASSERT_NE(runner, nullptr);
  std::set<std::pair<Backend, Layout>> seen;
  for (const auto& [name, item] : ReadCases(Folder(GetParam()))) {
    for (const RouteCase& route : kRoutes) {
      const std::string what = absl::StrCat(name, " by ", route.name);
      const Answer answer = RunCase(*runner, item, route);
      seen.insert({answer.route.backend, answer.route.layout});
      EXPECT_LE(LargestRowError(answer.vectors, item.vectors), kMaxFloat32Error) << what;
      for (size_t i = 0; i < item.scores.values.size(); ++i) {
        const double expected = item.scores.values[i];
        EXPECT_NEAR(answer.scores.values[i], expected, 1e-4 * (1 + std::abs(expected))) << what;
      }
    }
  }
  EXPECT_EQ(seen.count({Backend::kDense, Layout::kFlat}), 1U);
  EXPECT_EQ(seen.count({Backend::kDense, Layout::kPadded}), 1U);
  EXPECT_EQ(seen.count({Backend::kSegmented, Layout::kFlat}), 1U);
  EXPECT_EQ(seen.count({Backend::kSegmented, Layout::kPadded}), 1U);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ParityTest,
                         ::testing::Values("base_f32", "causal_sharded_f32", "reward_f32",
                                           "causal_tied_bf16", "reward_bias_bf16", "base_bf16"),
                         [](const auto& info) { return info.param; });

class BFloat16ParityTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BFloat16ParityTest, ErrorIsNoLargerThanThatOfTransformers) {
  const std::unique_ptr<ModelRunner> runner = Load(Folder(GetParam()), "bfloat16");
  ASSERT_NE(runner, nullptr);
  const std::map<std::string, Case> cases = ReadCases(Folder(GetParam()));
  for (const RouteCase& route : kRoutes) {
    double ours = 0;
    double theirs = 0;
    int candidates = 0;
    for (const auto& [name, item] : cases) {
      const Answer answer = RunCase(*runner, item, route);
      for (int64_t row = 0; row < item.vectors.rows; ++row) {
        const int64_t size = item.vectors.columns;
        const float* expected = item.vectors.Row(row);
        const double norm = SquaredNorm(expected, size);
        ours += SquaredDistance(answer.vectors.Row(row), expected, size) / norm;
        theirs += SquaredDistance(item.vectors_bf16.Row(row), expected, size) / norm;
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
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace canopy
