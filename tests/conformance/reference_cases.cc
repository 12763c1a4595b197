#include "tests/conformance/reference_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/folder_snapshot.h"

namespace canopy {
namespace {

constexpr int64_t kMaxCaseBytes = int64_t{1} << 30;

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

std::shared_ptr<const PathBatch> ToBatch(const nlohmann::json& questions) {
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  for (const nlohmann::json& question : questions) {
    batch->AddQuestion(question["prefix"].get<std::vector<int32_t>>(),
                       question["candidates"].get<std::vector<std::vector<int32_t>>>());
  }
  return batch;
}

Matrix Unscored(int64_t rows, int64_t columns) {
  return {rows, columns,
          std::vector<float>(static_cast<size_t>(rows * columns),
                             std::numeric_limits<float>::quiet_NaN())};
}

// Copies rows from the order of a part to the positions of its paths.
void Scatter(const float* rows, const std::vector<int32_t>& paths, Matrix& matrix) {
  for (size_t i = 0; i < paths.size(); ++i) {
    std::copy_n(rows + static_cast<int64_t>(i) * matrix.columns, matrix.columns,
                matrix.values.data() + paths[i] * matrix.columns);
  }
}

}  // namespace

absl::StatusOr<std::map<std::string, ReferenceCase>> ReadReferenceCases(const std::string& folder) {
  CANOPY_ASSIGN_OR_RETURN(const WeightSource results, LoadCheckpoint(folder + "/oracle"));
  CANOPY_ASSIGN_OR_RETURN(FolderSnapshot oracle, FolderSnapshot::Open(folder + "/oracle"));
  CANOPY_ASSIGN_OR_RETURN(const std::string text, oracle.ReadText("cases.json", kMaxCaseBytes));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(folder, "/oracle/cases.json is not a JSON object"));
  }
  std::map<std::string, ReferenceCase> cases;
  for (const auto& [name, questions] : json.items()) {
    const auto outputs = [&, prefix = name + "."](const std::string& suffix) {
      const auto matrix = [&](const char* kind) {
        return ToMatrix(results.Find(absl::StrCat(prefix, kind, suffix)));
      };
      return ReferenceOutputs{matrix("vectors"), matrix("scores"), matrix("values"),
                              matrix("tokens")};
    };
    cases[name] = {ToBatch(questions), outputs(""), outputs("_half")};
  }
  return cases;
}

absl::StatusOr<RunAnswer> RunPlan(ModelRunner& runner, const RequestPlan& plan) {
  const ModelInfo& info = *runner.info();
  OutputSelection outputs;
  outputs.vectors = true;
  outputs.scores = info.num_labels > 0;
  const int64_t num_paths = plan.batch().num_paths();
  RunAnswer answer = {Unscored(num_paths, info.hidden_size), Unscored(num_paths, info.num_labels)};
  std::vector<float> vectors;
  for (int32_t part = 0; part < plan.num_parts(); ++part) {
    const TreePlan tree = plan.BuildPart(part);
    CANOPY_ASSIGN_OR_RETURN(const PartOutput output, runner.Run(tree, outputs));
    vectors.resize(output.vectors.size() / sizeof(float));
    std::memcpy(vectors.data(), output.vectors.data(), output.vectors.size());
    Scatter(vectors.data(), tree.paths, answer.vectors);
    Scatter(output.scores.data(), tree.paths, answer.scores);
    answer.finite &=
        std::find(output.finite.begin(), output.finite.end(), 0) == output.finite.end() &&
        std::count(output.unscored.begin(), output.unscored.end(), 0) ==
            static_cast<int64_t>(output.unscored.size());
  }
  return answer;
}

std::vector<double> SquaredRelativeErrors(const Matrix& actual, const Matrix& expected) {
  std::vector<double> errors;
  for (int64_t row = 0; row < expected.rows; ++row) {
    double difference = 0;
    double norm = 0;
    for (int64_t column = 0; column < expected.columns; ++column) {
      const double value = expected.Row(row)[column];
      difference += std::pow(actual.Row(row)[column] - value, 2);
      norm += value * value;
    }
    const double error = difference / norm;
    errors.push_back(std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
  }
  return errors;
}

}  // namespace canopy
