#include "server/wire/output_checks.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/engine/types.h"
#include "core/tree/outputs.h"
#include "core/tree/path_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelInfo Model(int64_t num_labels, bool has_lm_head) {
  ModelInfo model;
  model.name = "m";
  model.hidden_size = 1 << 16;
  model.vocab_size = 1'000;
  model.num_labels = num_labels;
  model.has_lm_head = has_lm_head;
  model.has_value_head = num_labels == 1;
  return model;
}

// Returns one question with `num_paths` paths of `prefix_tokens` + 1 tokens.
PathBatch Batch(int num_paths, int prefix_tokens) {
  PathBatch batch;
  batch.AddQuestion(std::vector<int32_t>(static_cast<size_t>(prefix_tokens), 1),
                    std::vector<std::vector<int32_t>>(static_cast<size_t>(num_paths), {2}));
  return batch;
}

OutputsFields Asking(std::initializer_list<Output> outputs) {
  OutputsFields fields;
  for (const Output output : outputs) {
    fields.amounts[static_cast<size_t>(output)] = 1;
  }
  return fields;
}

TEST(OutputChecksTest, HeadsFollowTheModel) {
  EXPECT_THAT(HeadNames(Model(0, false)), ElementsAre("vectors"));
  EXPECT_THAT(HeadNames(Model(1, false)), ElementsAre("vectors", "reward", "values"));
  EXPECT_THAT(HeadNames(Model(3, false)), ElementsAre("vectors", "reward"));
  EXPECT_THAT(HeadNames(Model(0, true)), ElementsAre("vectors", "logprobs"));
  EXPECT_THAT(HeadNames(Model(1, true)), ElementsAre("vectors", "reward", "logprobs", "values"));
}

TEST(OutputChecksTest, TheReasonForAMissingHeadIsReturned) {
  const OutputsFields outputs = Asking({Output::kTokenLogprobs, Output::kScores});
  ModelInfo model = Model(0, false);
  model.lm_head_reason = "its folder holds no lm_head.weight";
  const std::string message(CheckHeads(outputs, model).message());
  EXPECT_THAT(message, HasSubstr("outputs.token_logprobs: model m has no language-model head (its "
                                 "folder holds no lm_head.weight); it has: vectors"));
  EXPECT_THAT(message, HasSubstr("outputs.scores: model m has no scoring head; it has: vectors"));
}

TEST(OutputChecksTest, EveryOutputWithoutItsHeadIsNamed) {
  EXPECT_TRUE(CheckHeads(Asking({Output::kVectors}), Model(0, false)).ok());
  OutputsFields outputs;
  outputs.amounts.fill(1);
  EXPECT_TRUE(CheckHeads(outputs, Model(1, true)).ok());
  const absl::Status status = CheckHeads(outputs, Model(0, false));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const OutputSpec& spec : kOutputs) {
    const std::string place = absl::StrCat("outputs.", spec.name, ": ");
    EXPECT_EQ(absl::StrContains(status.message(), place), spec.head != OutputHead::kNone) << place;
  }
  EXPECT_THAT(
      std::string(CheckHeads(outputs, Model(2, true)).message()),
      HasSubstr(
          "outputs.values: model m has no head of one label for every token; it has: vectors, "
          "reward, logprobs"));
}

TEST(OutputChecksTest, AnAnswerThatDoesNotFitOneMessageIsRefused) {
  const PathBatch batch = Batch(4'096, 2'000);
  const ModelInfo model = Model(1, true);
  OutputSelection outputs;
  outputs.top_logprobs = 128;
  outputs.token_logprobs = true;
  EXPECT_TRUE(CheckAnswerSize(outputs, model, batch).ok()) << "4,096 entries";
  outputs.scope = TokenScope::kPath;
  const absl::Status status = CheckAnswerSize(outputs, model, batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  // There are 4,096 paths of 2,000 entries, of 4 and 64 + 128 * 8 bytes.
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("outputs.top_logprobs: 8945664000 bytes of vectors and per-token lists "
                        "exceed the 1879048192 of one answer"));
  outputs.top_logprobs = 0;
  EXPECT_TRUE(CheckAnswerSize(outputs, model, batch).ok());
}

TEST(OutputChecksTest, OutputsShareTheRoom) {
  const ModelInfo model = Model(1, true);
  OutputSelection outputs;
  outputs.vectors = true;
  const PathBatch most = Batch(7'168, 1);
  EXPECT_TRUE(CheckAnswerSize(outputs, model, most).ok()) << "exactly all of it";
  for (const OutputSpec& spec : kOutputs) {
    if (spec.unit == OutputUnit::kCandidate) {
      continue;
    }
    OutputSelection more = outputs;
    Ask(spec.output, 1, &more);
    EXPECT_THAT(std::string(CheckAnswerSize(more, model, most).message()),
                HasSubstr("outputs.vectors: "))
        << spec.name;
  }
}

TEST(OutputChecksTest, NamesAreThoseOfTheOutputsThatAreComputed) {
  OutputSelection outputs;
  EXPECT_TRUE(OutputNames(outputs).empty());
  for (const OutputSpec& spec : kOutputs) {
    Ask(spec.output, 1, &outputs);
  }
  for (const OutputSpec& spec : kOutputs) {
    const std::vector<std::string> names = OutputNames(outputs);
    EXPECT_EQ(std::count(names.begin(), names.end(), spec.name),
              spec.output == Output::kProbabilities ? 0 : 1)
        << spec.name;
  }
}

}  // namespace
}  // namespace canopy::server
