#include "server/wire/kind_rules.h"

#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

// Returns two questions, the second of which has these candidates.
PathBatch Batch(const std::vector<std::vector<int32_t>>& candidates) {
  PathBatch batch;
  batch.question_offsets = {0};
  batch.AddQuestion({1}, std::vector<std::vector<int32_t>>{{7}, {7}});
  batch.AddQuestion({1, 2}, candidates);
  return batch;
}

std::vector<std::vector<int32_t>> Distinct(int32_t count) {
  std::vector<std::vector<int32_t>> candidates;
  candidates.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    candidates.push_back({5, i});
  }
  return candidates;
}

TEST(KindRulesTest, CountsOfCandidates) {
  struct Rule {
    v1::QuestionKind kind;
    int32_t least;
    int32_t most;
  };
  for (const Rule& rule : {Rule{v1::QUESTION_KIND_BOOLEAN, 2, 2},
                           {v1::QUESTION_KIND_CHOICE, 1, 255},
                           {v1::QUESTION_KIND_SCORE, 2, 10},
                           {v1::QUESTION_KIND_PLAIN, 1, 300}}) {
    for (int32_t count = 1; count <= 300; ++count) {
      const auto violation = FindKindViolation(rule.kind, Batch(Distinct(count)), 1);
      ASSERT_EQ(violation.has_value(), count < rule.least || count > rule.most)
          << rule.kind << " " << count;
      if (violation.has_value()) {
        EXPECT_EQ(violation->field, ".candidates");
      }
    }
  }
}

TEST(KindRulesTest, CandidatesOfAKindAreDistinct) {
  std::vector<std::vector<int32_t>> candidates = {{5}, {5, 6}, {}, {6, 5}};
  EXPECT_FALSE(FindKindViolation(v1::QUESTION_KIND_CHOICE, Batch(candidates), 1).has_value());
  candidates.push_back({5, 6});
  const auto violation = FindKindViolation(v1::QUESTION_KIND_SCORE, Batch(candidates), 1);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, ".candidates[4].tokens");
  EXPECT_TRUE(absl::StrContains(violation->description, "equal to those of candidate 1;"));
  EXPECT_FALSE(FindKindViolation(v1::QUESTION_KIND_PLAIN, Batch(candidates), 1).has_value());
  EXPECT_TRUE(FindKindViolation(v1::QUESTION_KIND_BOOLEAN, Batch(candidates), 0).has_value());
}

TEST(KindRulesTest, UnknownKindsAreForTheirOwnCheck) {
  EXPECT_FALSE(FindKindViolation(9, Batch({{1}, {1}, {1}}), 1).has_value());
  EXPECT_EQ(ToQuestionKind(v1::QUESTION_KIND_SCORE), QuestionKind::kScore);
}

}  // namespace
}  // namespace canopy::server
