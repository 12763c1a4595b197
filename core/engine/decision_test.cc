#include "core/engine/decision.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace canopy {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Calls `check` with every list of 1 to `max_size` numbers taken from `values`.
void ForEachList(const std::vector<float>& values, size_t max_size,
                 const std::function<void(const std::vector<float>&)>& check) {
  for (size_t size = 1; size <= max_size; ++size) {
    std::vector<size_t> digits(size, 0);
    for (bool more = true; more;) {
      std::vector<float> list;
      list.reserve(size);
      for (const size_t digit : digits) {
        list.push_back(values[digit]);
      }
      check(list);
      more = false;
      for (size_t& digit : digits) {
        digit = (digit + 1) % values.size();
        if (digit != 0) {
          more = true;
          break;
        }
      }
    }
  }
}

// Computes a probability by its definition, one ratio at a time.
double NaiveProbability(const std::vector<float>& scores, size_t index, double temperature) {
  double inverse = 0;
  for (const float score : scores) {
    inverse += std::exp((static_cast<double>(score) - scores[index]) / temperature);
  }
  return 1 / inverse;
}

TEST(ProbabilitiesTest, ProbabilitiesAreTheSoftmaxOfScoresDividedByTemperature) {
  ForEachList({-3, -0.5, 0, 0.25, 2}, 4, [](const std::vector<float>& scores) {
    for (const double temperature : {0.05, 0.7, 1.0, 20.0}) {
      const std::vector<float> probabilities = Probabilities(scores, temperature);
      ASSERT_EQ(probabilities.size(), scores.size());
      for (size_t i = 0; i < scores.size(); ++i) {
        EXPECT_NEAR(probabilities[i], NaiveProbability(scores, i, temperature), 1e-7);
      }
      EXPECT_NEAR(std::accumulate(probabilities.begin(), probabilities.end(), 0.0), 1, 1e-6);
    }
  });
}

TEST(ProbabilitiesTest, ExtremeScoresNeitherOverflowNorVanish) {
  EXPECT_EQ(Probabilities({3e38F, -3e38F}, 0.05), (std::vector<float>{1, 0}));
  EXPECT_EQ(Probabilities({-1e4F, -1e4F}, 1), (std::vector<float>{0.5, 0.5}));
  EXPECT_EQ(Probabilities({std::numeric_limits<float>::lowest()}, 1), (std::vector<float>{1}));
}

TEST(ProbabilitiesTest, OneScoreThatIsNotFiniteLeavesNoProbabilities) {
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    EXPECT_TRUE(Probabilities({bad}, 1).empty());
    EXPECT_TRUE(Probabilities({0, bad, 1}, 1).empty());
  }
  EXPECT_TRUE(Probabilities({}, 1).empty());
}

TEST(KindTemperaturesTest, PlainQuestionsHaveOne) {
  const KindTemperatures temperatures{2, 3, 4};
  EXPECT_EQ(temperatures.Of(QuestionKind::kPlain), 1);
  EXPECT_EQ(temperatures.Of(QuestionKind::kBoolean), 2);
  EXPECT_EQ(temperatures.Of(QuestionKind::kChoice), 3);
  EXPECT_EQ(temperatures.Of(QuestionKind::kScore), 4);
  EXPECT_EQ(KindTemperatures().Of(QuestionKind::kScore), 1);
}

TEST(AnswerOfTest, PlainQuestionsHaveNone) {
  EXPECT_TRUE(std::holds_alternative<std::monostate>(AnswerOf(QuestionKind::kPlain, {0.5, 0.5})));
}

TEST(AnswerOfTest, TrueFromOneHalfOn) {
  for (int sixteenths = 0; sixteenths <= 16; ++sixteenths) {
    const float p = static_cast<float>(sixteenths) / 16;
    const auto answer = std::get<BooleanAnswer>(AnswerOf(QuestionKind::kBoolean, {p, 1 - p}));
    EXPECT_EQ(answer.probability, p);
    EXPECT_EQ(answer.value, sixteenths >= 8);
  }
  const float below = std::nextafter(0.5F, 0.0F);
  EXPECT_FALSE(std::get<BooleanAnswer>(AnswerOf(QuestionKind::kBoolean, {below, 1 - below})).value);
}

// Tries all lists of eighths, including those with a sum other than 1, because the rules concern
// only the order.
TEST(AnswerOfTest, ChoiceIsTheFirstOfTheMostProbable) {
  ForEachList({0, 0.125, 0.25, 0.5, 1}, 5, [](const std::vector<float>& probabilities) {
    const auto answer = std::get<ChoiceAnswer>(AnswerOf(QuestionKind::kChoice, probabilities));
    const auto index = static_cast<size_t>(answer.index);
    ASSERT_LT(index, probabilities.size());
    EXPECT_EQ(answer.probability, probabilities[index]);
    float second = 0;
    for (size_t i = 0; i < probabilities.size(); ++i) {
      EXPECT_TRUE(i < index ? probabilities[i] < answer.probability
                            : probabilities[i] <= answer.probability);
      second = i == index ? second : std::max(second, probabilities[i]);
    }
    EXPECT_EQ(answer.margin, answer.probability - second);
  });
}

TEST(AnswerOfTest, LevelIsTheFirstOfTheMostProbableAndExpectedTheMean) {
  ForEachList({0, 0.125, 0.25, 0.5}, 5, [](const std::vector<float>& probabilities) {
    const auto answer = std::get<ScoreAnswer>(AnswerOf(QuestionKind::kScore, probabilities));
    EXPECT_EQ(answer.level,
              std::get<ChoiceAnswer>(AnswerOf(QuestionKind::kChoice, probabilities)).index);
    float expected = 0;
    for (size_t level = 0; level < probabilities.size(); ++level) {
      expected += static_cast<float>(level) * probabilities[level];
    }
    EXPECT_EQ(answer.expected, expected);  // exact in eighths
  });
}

}  // namespace
}  // namespace canopy
