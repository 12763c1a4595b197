#include "server/wire/output_checks.h"

#include <memory>
#include <string>
#include <vector>

#include "core/engine/types.h"
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

// One question: `num_paths` paths of `prefix_tokens` + 1 tokens.
PathBatch Batch(int num_paths, int prefix_tokens) {
  PathBatch batch;
  batch.AddQuestion(std::vector<int32_t>(static_cast<size_t>(prefix_tokens), 1),
                    std::vector<std::vector<int32_t>>(static_cast<size_t>(num_paths), {2}));
  return batch;
}

TEST(OutputChecksTest, HeadsFollowTheModel) {
  EXPECT_THAT(HeadNames(Model(0, false)), ElementsAre("vectors"));
  EXPECT_THAT(HeadNames(Model(1, false)), ElementsAre("vectors", "reward", "values"));
  EXPECT_THAT(HeadNames(Model(3, false)), ElementsAre("vectors", "reward"));
  EXPECT_THAT(HeadNames(Model(0, true)), ElementsAre("vectors", "logprobs"));
  EXPECT_THAT(HeadNames(Model(1, true)), ElementsAre("vectors", "reward", "logprobs", "values"));
}

TEST(OutputChecksTest, SaysWhyALanguageModelHasNoHead) {
  OutputsFields outputs;
  outputs.token_logprobs = outputs.scores = true;
  ModelInfo model = Model(0, false);
  model.lm_head_reason = "its folder holds no lm_head.weight";
  const std::string message(CheckHeads(outputs, model).message());
  EXPECT_THAT(message, HasSubstr("outputs.token_logprobs: model m has no language-model head (its "
                                 "folder holds no lm_head.weight); it has: vectors"));
  EXPECT_THAT(message, HasSubstr("outputs.scores: model m has no scoring head; it has: vectors"));
}

TEST(OutputChecksTest, EveryOutputWithoutItsHeadIsNamed) {
  OutputsFields outputs;
  outputs.vectors = true;
  EXPECT_TRUE(CheckHeads(outputs, Model(0, false)).ok());
  outputs.scores = outputs.token_logprobs = outputs.entropy = outputs.vocab_range = true;
  outputs.values = outputs.probabilities = true;
  outputs.top_logprobs = 1;
  EXPECT_TRUE(CheckHeads(outputs, Model(1, true)).ok());
  const absl::Status status = CheckHeads(outputs, Model(0, false));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field : {"scores", "probabilities", "token_logprobs", "entropy", "vocab_range",
                            "values", "top_logprobs"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("outputs.") + field + ": "));
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
  // 4,096 paths of 2,000 entries, of 4 and 64 + 128 * 8 bytes.
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
  for (const auto& add : std::vector<void (*)(OutputSelection*)>{
           [](auto* o) { o->token_logprobs = true; }, [](auto* o) { o->entropy = true; },
           [](auto* o) { o->vocab_range = true; }, [](auto* o) { o->values = true; },
           [](auto* o) { o->top_logprobs = 1; }}) {
    OutputSelection more = outputs;
    add(&more);
    EXPECT_THAT(std::string(CheckAnswerSize(more, model, most).message()),
                HasSubstr("outputs.vectors: "));
  }
}

}  // namespace
}  // namespace canopy::server
