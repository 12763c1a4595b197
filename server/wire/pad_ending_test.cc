#include "server/wire/pad_ending.h"

#include <vector>

#include "gtest/gtest.h"

namespace canopy::server {
namespace {

constexpr int32_t kPad = 7;

PathBatch Batch(const std::vector<int32_t>& prefix,
                const std::vector<std::vector<int32_t>>& suffixes) {
  PathBatch batch;
  batch.question_offsets = {0};
  batch.AddQuestion({1, kPad}, {{2}, {kPad, 3}});
  batch.AddQuestion(prefix, suffixes);
  return batch;
}

TEST(PadEndingTest, LooksAtTheLastTokenOfEachPath) {
  ModelInfo model;
  model.pad_token = kPad;
  OutputSelection outputs;
  outputs.scores = true;
  EXPECT_FALSE(ScoresAPadEndedPath(Batch({kPad, 4}, {{5}, {kPad, 6}, {}}), outputs, model));
  EXPECT_TRUE(ScoresAPadEndedPath(Batch({4}, {{5}, {6, kPad}}), outputs, model));
  EXPECT_TRUE(ScoresAPadEndedPath(Batch({}, {{kPad}}), outputs, model));
  // The path of a candidate without tokens ends with the prefix.
  EXPECT_TRUE(ScoresAPadEndedPath(Batch({4, kPad}, {{5}, {}}), outputs, model));
}

TEST(PadEndingTest, CountsOnlyScoresOfModelsThatHaveAPaddingToken) {
  const PathBatch batch = Batch({}, {{kPad}});
  OutputSelection outputs;
  outputs.vectors = true;
  ModelInfo model;
  model.pad_token = kPad;
  EXPECT_FALSE(ScoresAPadEndedPath(batch, outputs, model));
  outputs.scores = true;
  EXPECT_TRUE(ScoresAPadEndedPath(batch, outputs, model));
  model.pad_token.reset();
  EXPECT_FALSE(ScoresAPadEndedPath(batch, outputs, model));
}

}  // namespace
}  // namespace canopy::server
