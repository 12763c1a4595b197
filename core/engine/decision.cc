#include "core/engine/decision.h"

#include <algorithm>
#include <cmath>

namespace canopy {
namespace {

// Returns the index of the largest probability, the first one on a tie.
size_t MostProbable(absl::Span<const float> probabilities) {
  return static_cast<size_t>(std::max_element(probabilities.begin(), probabilities.end()) -
                             probabilities.begin());
}

ChoiceAnswer Choose(absl::Span<const float> probabilities) {
  const size_t top = MostProbable(probabilities);
  float second = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (i != top) {
      second = std::max(second, probabilities[i]);
    }
  }
  return {static_cast<int32_t>(top), probabilities[top], probabilities[top] - second};
}

ScoreAnswer Rate(absl::Span<const float> probabilities) {
  double expected = 0;
  for (size_t level = 0; level < probabilities.size(); ++level) {
    expected += static_cast<double>(level) * probabilities[level];
  }
  return {static_cast<int32_t>(MostProbable(probabilities)), static_cast<float>(expected)};
}

}  // namespace

double KindTemperatures::Of(QuestionKind kind) const {
  switch (kind) {
    case QuestionKind::kPlain:
      break;
    case QuestionKind::kBoolean:
      return boolean;
    case QuestionKind::kChoice:
      return choice;
    case QuestionKind::kScore:
      return score;
  }
  return 1;
}

std::vector<float> Probabilities(absl::Span<const float> scores, double temperature) {
  const auto is_finite = [](float score) { return std::isfinite(score); };
  if (scores.empty() || !std::all_of(scores.begin(), scores.end(), is_finite)) {
    return {};
  }
  // The largest score is subtracted, so that no exponential overflows.
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> weights;
  weights.reserve(scores.size());
  double sum = 0;
  for (const float score : scores) {
    weights.push_back(std::exp((score - largest) / temperature));
    sum += weights.back();
  }
  std::vector<float> probabilities;
  probabilities.reserve(scores.size());
  for (const double weight : weights) {
    probabilities.push_back(static_cast<float>(weight / sum));
  }
  return probabilities;
}

Answer AnswerOf(QuestionKind kind, absl::Span<const float> probabilities) {
  switch (kind) {
    case QuestionKind::kPlain:
      break;
    case QuestionKind::kBoolean:
      return BooleanAnswer{probabilities.front(), probabilities.front() >= 0.5F};
    case QuestionKind::kChoice:
      return Choose(probabilities);
    case QuestionKind::kScore:
      return Rate(probabilities);
  }
  return std::monostate();
}

}  // namespace canopy
