#include "core/tree/path_batch.h"

#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PathBatch DrawnBatch() {
  PathBatch batch;
  batch.AddQuestion({7, 8}, {{1}, {2, 3}});
  batch.AddQuestion({}, {{9}});
  return batch;
}

TEST(PathBatch, StoresEachTokenOnce) {
  const PathBatch batch = DrawnBatch();
  EXPECT_THAT(batch.tokens, ElementsAre(7, 8, 1, 2, 3, 9));
  EXPECT_THAT(batch.question_offsets, ElementsAre(0, 2, 3));
  EXPECT_EQ(batch.num_questions(), 2);
  EXPECT_EQ(batch.num_paths(), 3);
  EXPECT_THAT(batch.Tokens(batch.prefixes[0]), ElementsAre(7, 8));
  EXPECT_THAT(batch.Tokens(batch.suffixes[1]), ElementsAre(2, 3));
  EXPECT_THAT(batch.Tokens(batch.prefixes[1]), ElementsAre());
  EXPECT_EQ(batch.PathLength(0, 1), 4);
  EXPECT_EQ(batch.PathLength(1, 2), 1);
  EXPECT_TRUE(ValidatePathBatch(batch).ok());
}

struct BadBatch {
  std::string name;
  std::function<void(PathBatch&)> spoil;
  std::string message;
};

class BadPathBatch : public ::testing::TestWithParam<BadBatch> {};

TEST_P(BadPathBatch, IsRefusedWithItsPlace) {
  PathBatch batch = DrawnBatch();
  GetParam().spoil(batch);
  const absl::Status status = ValidatePathBatch(batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Each, BadPathBatch,
    ::testing::Values(
        BadBatch{"NoQuestions", [](PathBatch& b) { b = PathBatch(); }, "questions: at least one"},
        BadBatch{"NoOffsets", [](PathBatch& b) { b.question_offsets.clear(); },
                 "question_offsets: 0 offsets"},
        BadBatch{"OffsetsStartLate", [](PathBatch& b) { b.question_offsets[0] = 1; },
                 "question_offsets: 3 offsets do not cover 3 suffixes of 2 questions"},
        BadBatch{"OffsetsEndEarly", [](PathBatch& b) { b.question_offsets[2] = 2; },
                 "question_offsets"},
        BadBatch{"QuestionWithoutPaths", [](PathBatch& b) { b.question_offsets[1] = 3; },
                 "questions[1].candidates: at least one"},
        BadBatch{"OffsetsGoBack", [](PathBatch& b) { b.question_offsets[1] = -4; },
                 "questions[0].candidates: at least one"},
        BadBatch{"EmptyPath", [](PathBatch& b) { b.suffixes[2].size = 0; },
                 "questions[1].candidates[0].tokens: the path is empty"},
        BadBatch{"PrefixBeforeTokens", [](PathBatch& b) { b.prefixes[0].begin = -1; },
                 "questions[0].prefix: span of 2 tokens at -1 lies outside the 6 tokens"},
        BadBatch{"NegativeSize", [](PathBatch& b) { b.suffixes[1].size = -1; },
                 "questions[0].candidates[1].tokens: span of -1 tokens"},
        BadBatch{"SuffixBehindTokens", [](PathBatch& b) { b.suffixes[2].begin = 6; },
                 "questions[1].candidates[0].tokens: span of 1 tokens at 6 lies outside"},
        BadBatch{"BeginOverflows", [](PathBatch& b) { b.suffixes[0].begin = kFar; },
                 "questions[0].candidates[0].tokens: span"}),
    [](const auto& info) { return info.param.name; });

// Two questions with three paths, in mixed row order: 5 6 | 1 2 3 | 4. The middle slot of question
// 1 is empty.
struct PaddedArrays {
  std::vector<int32_t> input_ids = {5, 6, 0, 1, 2, 3, 4, 0, 0};
  std::vector<uint8_t> attention_mask = {1, 1, 0, 1, 1, 1, 1, 0, 0};
  std::vector<int32_t> candidate_end = {1, 2, 0};
  std::vector<int32_t> question_index = {1, 0, 1};
  std::vector<int32_t> candidate_index = {2, 0, 0};
  std::vector<uint8_t> candidate_mask = {1, 0, 0, 1, 0, 1};
  int32_t num_paths = 3;
  int32_t length = 3;
  int32_t num_questions = 2;
  int32_t max_candidates = 3;

  PaddedPaths View() const {
    return {input_ids,      attention_mask, candidate_end, question_index, candidate_index,
            candidate_mask, num_paths,      length,        num_questions,  max_candidates};
  }
};

TEST(ImportPaddedPaths, OrdersPathsByQuestionAndSlot) {
  const PaddedArrays arrays;
  const auto imported = ImportPaddedPaths(arrays.View());
  ASSERT_TRUE(imported.ok()) << imported.status();
  const PathBatch& batch = imported->batch;
  EXPECT_THAT(batch.question_offsets, ElementsAre(0, 1, 3));
  EXPECT_THAT(batch.Tokens(batch.suffixes[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(batch.Tokens(batch.suffixes[1]), ElementsAre(4));
  EXPECT_THAT(batch.Tokens(batch.suffixes[2]), ElementsAre(5, 6));
  EXPECT_EQ(batch.prefixes[1].size, 0);
  EXPECT_THAT(imported->path_slot, ElementsAre(0, 3, 5));
}

struct BadPadded {
  std::string name;
  std::function<void(PaddedArrays&)> spoil;
  std::string message;
};

class BadPaddedPaths : public ::testing::TestWithParam<BadPadded> {};

TEST_P(BadPaddedPaths, IsRefusedWithItsRow) {
  PaddedArrays arrays;
  GetParam().spoil(arrays);
  const auto imported = ImportPaddedPaths(arrays.View());
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(imported.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadPaddedPaths,
    ::testing::Values(
        BadPadded{"LeftPadded",
                  [](PaddedArrays& a) { a.attention_mask = {0, 1, 1, 1, 1, 1, 1, 0, 0}; },
                  "row 0: attention_mask[0] is 0"},
        BadPadded{"HoleInMask", [](PaddedArrays& a) { a.attention_mask[4] = 0; },
                  "row 1: attention_mask[1] is 0"},
        BadPadded{"MaskGoesOn", [](PaddedArrays& a) { a.attention_mask[7] = 1; },
                  "row 2: attention_mask[1] is 1, expected 0"},
        BadPadded{"MaskOfTwo", [](PaddedArrays& a) { a.attention_mask[0] = 2; },
                  "row 0: attention_mask[0] is 2"},
        BadPadded{"EndBeforeLastToken", [](PaddedArrays& a) { a.candidate_end[1] = 1; },
                  "row 1: attention_mask[2] is 1"},
        BadPadded{"EndBehindLastToken", [](PaddedArrays& a) { a.candidate_end[0] = 2; },
                  "row 0: attention_mask[2] is 0"},
        BadPadded{"EndOutside", [](PaddedArrays& a) { a.candidate_end[2] = 3; },
                  "row 2: end position 3 lies outside 0 .. 2"},
        BadPadded{"EndNegative", [](PaddedArrays& a) { a.candidate_end[2] = -1; },
                  "row 2: end position -1"},
        BadPadded{"QuestionOutside", [](PaddedArrays& a) { a.question_index[1] = 2; },
                  "row 1: question 2, candidate 0 lies outside 2 questions x 3"},
        BadPadded{"QuestionNegative", [](PaddedArrays& a) { a.question_index[1] = -1; },
                  "row 1: question -1"},
        BadPadded{"CandidateOutside", [](PaddedArrays& a) { a.candidate_index[0] = 3; },
                  "row 0: question 1, candidate 3"},
        BadPadded{"CandidateNegative", [](PaddedArrays& a) { a.candidate_index[0] = -1; },
                  "row 0: question 1, candidate -1"},
        BadPadded{"SlotTakenTwice", [](PaddedArrays& a) { a.candidate_index[2] = 2; },
                  "row 2: question 1, candidate 2 is taken by row 0"},
        BadPadded{"MaskHasOneMore", [](PaddedArrays& a) { a.candidate_mask[1] = 1; },
                  "candidate_mask[0, 1] is 1, expected 0: no row"},
        BadPadded{"MaskHasOneLess", [](PaddedArrays& a) { a.candidate_mask[5] = 0; },
                  "candidate_mask[1, 2] is 0, expected 1: row 0"},
        BadPadded{"QuestionWithoutPaths",
                  [](PaddedArrays& a) {
                    a.question_index[1] = 1;
                    a.candidate_index[1] = 1;
                    a.candidate_mask = {0, 0, 0, 1, 1, 1};
                  },
                  "questions[0].candidates: at least one"},
        BadPadded{"NoPaths", [](PaddedArrays& a) { a.num_paths = 0; }, "padded batch of 0 paths"},
        BadPadded{"NegativeLength", [](PaddedArrays& a) { a.length = -3; }, "x -3 tokens"},
        BadPadded{"ShortIds", [](PaddedArrays& a) { a.input_ids.pop_back(); },
                  "input_ids: 8 elements, expected 3 x 3"},
        BadPadded{"ShortMask", [](PaddedArrays& a) { a.attention_mask.pop_back(); },
                  "attention_mask: 8 elements"},
        BadPadded{"ShortEnds", [](PaddedArrays& a) { a.candidate_end.pop_back(); },
                  "candidate_end: 2 elements"},
        BadPadded{"ShortQuestions", [](PaddedArrays& a) { a.question_index.pop_back(); },
                  "question_index: 2 elements"},
        BadPadded{"ShortCandidates", [](PaddedArrays& a) { a.candidate_index.pop_back(); },
                  "candidate_index: 2 elements"},
        BadPadded{"ShortCandidateMask", [](PaddedArrays& a) { a.candidate_mask.pop_back(); },
                  "candidate_mask: 5 elements, expected 2 x 3"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace canopy
