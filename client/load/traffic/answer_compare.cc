#include "client/load/traffic/answer_compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "client/output_fields.h"
#include "client/tensor.h"

namespace canopy::client {
namespace {

using Result = v1::CandidateResult;

// The multiple of the tolerance by which a rank may differ, relative to the rank.
constexpr double kRankSlack = 100;

// The largest magnitude of each output in an answer, at least 1.
struct Scales {
  float score = 1;
  float sum_logprob = 1;
  float label_score = 1;
  float vector = 1;
  std::vector<float> lists;  // for per-token lists, by the field number of their output

  // All lists of one output have the same scale.
  float& OfList(const ResultField& list) {
    const auto number = static_cast<size_t>(list.output->number());
    lists.resize(std::max(lists.size(), number + 1), 1);
    return lists[number];
  }
  float OfList(const ResultField& list) const {
    const auto number = static_cast<size_t>(list.output->number());
    return number < lists.size() ? lists[number] : 1;
  }
};

void Raise(absl::Span<const float> numbers, float* scale) {
  for (const float number : numbers) {
    // The condition is written so that NaN has no effect.
    if (std::abs(number) > *scale) {
      *scale = std::abs(number);
    }
  }
}

Scales ScalesOf(const v1::ScoreResponse& answer) {
  Scales scales;
  for (const v1::QuestionResult& question : answer.results()) {
    for (const Result& result : question.candidates()) {
      Raise({result.score()}, &scales.score);
      Raise({result.sum_logprob()}, &scales.sum_logprob);
      Raise(result.label_scores(), &scales.label_score);
      for (const ResultField& list : TokenLists()) {
        if (IsFloat(*list.field)) {
          Raise(FloatsOf(result, *list.field), &scales.OfList(list));
        }
      }
    }
  }
  const v1::Tensor& vectors = answer.vectors();
  const size_t element_bytes = BytesPerElement(vectors.dtype());
  for (size_t i = 0; element_bytes > 0 && i < vectors.data().size() / element_bytes; ++i) {
    Raise({ElementAt(vectors.data(), vectors.dtype(), i)}, &scales.vector);
  }
  return scales;
}

// Compares the numbers of one candidate. The caller adds the place.
class CandidateComparison {
 public:
  CandidateComparison(double tolerance, const Scales& scales)
      : tolerance_(tolerance), scales_(scales) {}

  absl::optional<Difference> Compare(const Result& expected, const Result& got) {
    CompareText("id", expected.id(), got.id());
    CompareCount("tokens", expected.tokens(), got.tokens());
    CompareText("unscored_reason", expected.unscored_reason(), got.unscored_reason());
    CompareText("unscored_outputs", absl::StrJoin(expected.unscored_outputs(), " "),
                absl::StrJoin(got.unscored_outputs(), " "));
    CompareOptional("score", scales_.score, expected.has_score(), expected.score(), got.has_score(),
                    got.score());
    CompareOptional("sum_logprob", scales_.sum_logprob, expected.has_sum_logprob(),
                    expected.sum_logprob(), got.has_sum_logprob(), got.sum_logprob());
    CompareLists("label_scores", scales_.label_score, expected.label_scores(), got.label_scores());
    for (const ResultField& list : TokenLists()) {
      const Field& field = *list.field;
      if (IsFloat(field)) {
        CompareLists(field.name().c_str(), scales_.OfList(list), FloatsOf(expected, field),
                     FloatsOf(got, field));
      } else if (IsInteger(field)) {
        CompareRanks(field.name().c_str(), IntegersOf(expected, field), IntegersOf(got, field));
      }
    }
    return found_;
  }

  // Compares row `row` of two tensors of the same shape.
  absl::optional<Difference> CompareRows(const v1::Tensor& expected, const v1::Tensor& got,
                                         uint64_t row) {
    const uint64_t hidden = expected.shape(1);
    for (uint64_t i = 0; i < hidden && !found_.has_value(); ++i) {
      CompareNumber("vector", scales_.vector, static_cast<int64_t>(i),
                    ElementAt(expected.data(), expected.dtype(), row * hidden + i),
                    ElementAt(got.data(), got.dtype(), row * hidden + i));
    }
    return found_;
  }

 private:
  // The condition is written so that NaN does not fit. Rows of unscored candidates are NaN on both
  // sides.
  bool Fits(float scale, float expected, float got) const {
    const double allowed = tolerance_ * std::max(scale, std::abs(expected));
    return std::abs(static_cast<double>(expected) - got) <= allowed ||
           (std::isnan(expected) && std::isnan(got));
  }

  void Report(std::string output, std::string expected, std::string got) {
    if (!found_.has_value()) {
      found_ = Difference{0, 0, std::move(output), std::move(expected), std::move(got)};
    }
  }

  // `index` is below 0 for a number that is not in a list.
  void CompareNumber(const char* output, float scale, int64_t index, float expected, float got) {
    if (!Fits(scale, expected, got)) {
      Report(index < 0 ? output : absl::StrCat(output, "[", index, "]"), absl::StrCat(expected),
             absl::StrCat(got));
    }
  }

  void CompareText(const char* output, const std::string& expected, const std::string& got) {
    if (expected != got) {
      Report(output, absl::StrCat("'", expected, "'"), absl::StrCat("'", got, "'"));
    }
  }

  void CompareCount(const char* output, uint64_t expected, uint64_t got) {
    if (expected != got) {
      Report(output, absl::StrCat(expected), absl::StrCat(got));
    }
  }

  void CompareOptional(const char* output, float scale, bool expects, float expected, bool has,
                       float got) {
    if (expects != has) {
      Report(output, expects ? absl::StrCat(expected) : "none", has ? absl::StrCat(got) : "none");
    } else if (expects) {
      CompareNumber(output, scale, -1, expected, got);
    }
  }

  void CompareLists(const char* output, float scale, absl::Span<const float> expected,
                    absl::Span<const float> got) {
    if (expected.size() != got.size()) {
      Report(output, absl::StrCat(expected.size(), " numbers"), absl::StrCat(got.size()));
      return;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      CompareNumber(output, scale, static_cast<int64_t>(i), expected[i], got[i]);
    }
  }

  // Tokens whose logits differ only by rounding may swap their ranks, and at high ranks many do.
  void CompareRanks(const char* output, absl::Span<const uint32_t> expected,
                    absl::Span<const uint32_t> got) {
    if (expected.size() != got.size()) {
      Report(output, absl::StrCat(expected.size(), " numbers"), absl::StrCat(got.size()));
      return;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const double allowed =
          tolerance_ == 0 ? 0 : 1 + kRankSlack * tolerance_ * std::max(expected[i], got[i]);
      if (std::abs(static_cast<double>(expected[i]) - got[i]) > allowed) {
        Report(absl::StrCat(output, "[", i, "]"), absl::StrCat(expected[i]), absl::StrCat(got[i]));
      }
    }
  }

  const double tolerance_;
  const Scales& scales_;
  absl::optional<Difference> found_;
};

absl::optional<Difference> CountDifference(int question, const char* output, uint64_t expected,
                                           uint64_t got) {
  if (expected == got) {
    return absl::nullopt;
  }
  return Difference{question, -1, output, absl::StrCat(expected), absl::StrCat(got)};
}

// Checks that `got` has the same number of questions, candidates and vector elements as `expected`,
// so that both can be traversed together.
absl::optional<Difference> FindShapeDifference(const v1::ScoreResponse& expected,
                                               const v1::ScoreResponse& got) {
  absl::optional<Difference> found =
      CountDifference(-1, "results", expected.results_size(), got.results_size());
  for (int q = 0; !found.has_value() && q < expected.results_size(); ++q) {
    const v1::QuestionResult& question = expected.results(q);
    if (question.id() != got.results(q).id()) {
      return Difference{q, -1, "id", question.id(), got.results(q).id()};
    }
    found = CountDifference(q, "candidates", question.candidates_size(),
                            got.results(q).candidates_size());
  }
  if (!found.has_value()) {
    found = CountDifference(-1, "vectors.dtype", expected.vectors().dtype(), got.vectors().dtype());
  }
  if (!found.has_value()) {
    found = CountDifference(-1, "vectors.data bytes", expected.vectors().data().size(),
                            got.vectors().data().size());
  }
  return found;
}

// Precondition: `got` has the shape of `expected`.
absl::optional<Difference> FindNumberDifference(const v1::ScoreResponse& expected,
                                                const v1::ScoreResponse& got, double tolerance,
                                                const Scales& scales) {
  uint64_t row = 0;
  for (int q = 0; q < expected.results_size(); ++q) {
    for (int c = 0; c < expected.results(q).candidates_size(); ++c, ++row) {
      CandidateComparison comparison(tolerance, scales);
      absl::optional<Difference> found =
          comparison.Compare(expected.results(q).candidates(c), got.results(q).candidates(c));
      if (!found.has_value() && expected.has_vectors()) {
        found = comparison.CompareRows(expected.vectors(), got.vectors(), row);
      }
      if (found.has_value()) {
        found->question = q;
        found->candidate = c;
        return found;
      }
    }
  }
  return absl::nullopt;
}

}  // namespace

std::string ToString(const Difference& difference) {
  std::string place;
  if (difference.question >= 0) {
    absl::StrAppend(&place, "questions[", difference.question, "].");
  }
  if (difference.candidate >= 0) {
    absl::StrAppend(&place, "candidates[", difference.candidate, "].");
  }
  return absl::StrCat(place, difference.output, ": expected ", difference.expected, ", got ",
                      difference.got);
}

absl::optional<Difference> FindDifference(const v1::ScoreResponse& expected,
                                          const v1::ScoreResponse& got, double tolerance) {
  absl::optional<Difference> found = FindShapeDifference(expected, got);
  if (found.has_value()) {
    return found;
  }
  // Scales need a traversal of their own, and are rarely needed.
  found = FindNumberDifference(expected, got, tolerance, Scales());
  return found.has_value() ? FindNumberDifference(expected, got, tolerance, ScalesOf(expected))
                           : found;
}

}  // namespace canopy::client
