#include "server/wire/request_validator.h"

#include <cstdint>
#include <memory>
#include <string>

#include "canopy/v1/scorer.pb.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

OutputSelection OutputsOf(const v1::Outputs& outputs, int64_t vocab_size) {
  auto model = std::make_shared<ModelInfo>();
  model->name = "model";
  model->vocab_size = vocab_size;
  model->max_path_tokens = 8;
  model->has_lm_head = model->has_value_head = true;
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  question->add_candidates()->mutable_tokens()->add_ids(0);
  *request.mutable_outputs() = outputs;
  const std::string bytes = request.SerializeAsString();
  const auto prepared = PrepareRequest(bytes, RequestLimits(), [&model](absl::string_view) {
    return std::shared_ptr<const ModelInfo>(model);
  });
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  return prepared.ok() ? prepared->job.outputs : OutputSelection();
}

TEST(RequestValidatorTest, ASmallVocabularyBoundsTheNumberOfTopTokens) {
  v1::Outputs outputs;
  outputs.set_top_logprobs(7);
  EXPECT_EQ(OutputsOf(outputs, 100).top_logprobs, 7);
  EXPECT_EQ(OutputsOf(outputs, 3).top_logprobs, 3);
}

TEST(RequestValidatorTest, AFlagIsSetEvenInTheSmallestVocabulary) {
  v1::Outputs outputs;
  outputs.set_token_ranks(true);
  outputs.set_values(true);
  for (const int64_t vocab_size : {1, 100}) {
    const OutputSelection selection = OutputsOf(outputs, vocab_size);
    EXPECT_TRUE(selection.token_ranks && selection.values) << vocab_size;
    EXPECT_FALSE(selection.vectors || selection.scores) << vocab_size;
  }
}

}  // namespace
}  // namespace canopy::server
