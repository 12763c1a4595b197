#include "client/cli/score_columns.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "client/enum_names.h"
#include "client/output_fields.h"
#include "client/tensor.h"
#include "client/unscored.h"

namespace canopy::client {
namespace {

std::string Number(double value) { return absl::StrFormat("%.4f", value); }

template <typename T>
std::string Mean(absl::Span<const T> values) {
  double sum = 0;
  for (const T value : values) {
    sum += value;
  }
  return values.empty() ? "" : Number(sum / static_cast<double>(values.size()));
}

std::string LabelScores(const v1::CandidateResult& result) {
  return absl::StrJoin(result.label_scores(), " ",
                       [](std::string* out, float score) { absl::StrAppend(out, Number(score)); });
}

std::string LogitRange(const v1::CandidateResult& result) {
  if (result.min_logit().empty() || result.max_logit().empty()) {
    return "";
  }
  return absl::StrCat(
      Number(*std::min_element(result.min_logit().begin(), result.min_logit().end())), " ",
      Number(*std::max_element(result.max_logit().begin(), result.max_logit().end())));
}

// 20 marks stand for probability 1, so that the bars of a question add up to its distribution.
std::string Bar(float probability) {
  constexpr float kMarks = 20;
  // The value is limited, because a server may send any finite number.
  return std::string(static_cast<size_t>(std::lround(std::clamp(probability, 0.0F, 1.0F) * kMarks)),
                     '#');
}

// Returns the shape and length of one row, such as `float32[64] norm 1.0000`.
std::string VectorSummary(const v1::Tensor& vectors, uint64_t row) {
  const uint64_t hidden = vectors.shape(1);
  double sum_of_squares = 0;
  for (uint64_t i = 0; i < hidden; ++i) {
    const double value = ElementAt(vectors.data(), vectors.dtype(), row * hidden + i);
    sum_of_squares += value * value;
  }
  return absl::StrCat(EnumName(vectors.dtype()), "[", hidden, "] norm ",
                      Number(std::sqrt(sum_of_squares)));
}

using Result = v1::CandidateResult;

struct CandidateColumn {
  const char* output;  // the field of Outputs that the column shows
  const char* title;
  bool (*has)(const Result& result);
  std::string (*cell)(const Result& result);
  TextTable::Align align = TextTable::Align::kRight;
};

// The columns that are specific to one output. Other per-token lists get a column with the mean of
// their numbers.
const CandidateColumn kColumns[] = {
    {"scores", "score", [](const Result& r) { return r.has_score(); },
     [](const Result& r) { return r.has_score() ? Number(r.score()) : ""; }},
    {"scores", "labels", [](const Result& r) { return !r.label_scores().empty(); }, LabelScores},
    {"probabilities", "probability", [](const Result& r) { return r.has_probability(); },
     [](const Result& r) { return r.has_probability() ? Number(r.probability()) : ""; }},
    {"probabilities", "distribution", [](const Result& r) { return r.has_probability(); },
     [](const Result& r) { return Bar(r.probability()); }, TextTable::Align::kLeft},
    {"token_logprobs", "logprob", [](const Result& r) { return r.has_sum_logprob(); },
     [](const Result& r) { return r.has_sum_logprob() ? Number(r.sum_logprob()) : ""; }},
    {"entropy", "mean entropy", [](const Result& r) { return !r.entropy().empty(); },
     [](const Result& r) { return Mean<float>(r.entropy()); }},
    {"vocab_range", "logit range", [](const Result& r) { return !r.min_logit().empty(); },
     LogitRange},
    {"values", "last value", [](const Result& r) { return !r.values().empty(); },
     [](const Result& r) {
       return r.values().empty() ? "" : Number(r.values(r.values_size() - 1));
     }},
};

template <typename Test>
bool AnyCandidate(const v1::ScoreResponse& response, const Test& has) {
  for (const v1::QuestionResult& question : response.results()) {
    if (std::any_of(question.candidates().begin(), question.candidates().end(), has)) {
      return true;
    }
  }
  return false;
}

bool HasColumn(const Field& output) {
  return std::any_of(std::begin(kColumns), std::end(kColumns),
                     [&output](const auto& column) { return column.output == output.name(); });
}

// Returns the column of a list of numbers.
ScoreColumn MeanColumn(const Field& list) {
  return {absl::StrCat("mean ", EntryTitle(list)), [&list](const Result& result, uint64_t /*row*/) {
            return IsFloat(list) ? Mean(FloatsOf(result, list)) : Mean(IntegersOf(result, list));
          }};
}

}  // namespace

std::vector<ScoreColumn> ColumnsOf(const v1::ScoreResponse& response) {
  std::vector<ScoreColumn> columns;
  for (const CandidateColumn& column : kColumns) {
    if (AnyCandidate(response, column.has)) {
      columns.push_back(
          {column.title,
           [cell = column.cell](const Result& result, uint64_t /*row*/) { return cell(result); },
           column.align});
    }
  }
  for (const ResultField& list : TokenLists()) {
    const Field& field = *list.field;
    if (!HasColumn(*list.output) && (IsFloat(field) || IsInteger(field)) &&
        AnyCandidate(response, [&field](const Result& result) { return Has(result, field); })) {
      columns.push_back(MeanColumn(field));
    }
  }
  if (response.has_vectors()) {
    columns.push_back({"vector", [&response](const Result& result, uint64_t row) {
                         return Lacks(result, "vectors") ? ""
                                                         : VectorSummary(response.vectors(), row);
                       }});
  }
  return columns;
}

}  // namespace canopy::client
