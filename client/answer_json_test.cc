// Compares the documented JSON byte by byte, because other programs parse it.
#include "client/answer_json.h"

#include <string>

#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(AnswerJsonTest, ScoreResponse) {
  EXPECT_EQ(
      ScoreResponseToJson(SampleResponse()),
      R"({"request_id":"r1","model":"demo","model_version":3,)"
      R"("model_fingerprint":"9f86d081884c7d65","results":[)"
      R"({"id":"color","candidates":[)"
      R"({"id":"red","tokens":4,"score":0.5,"probability":0.11,"first_scored_token":2,)"
      R"("token_logprobs":[-1.0,-0.5],"sum_logprob":-1.5,"entropy":[2.0,1.0],)"
      R"("min_logit":[-3.0,-4.0],"max_logit":[3.0,4.0],"values":[0.1,0.2],)"
      R"("top_logprobs":[{"ids":[7,9],"logprobs":[-1.0,-1.5]},{"ids":[8],"logprobs":[-0.5]}]},)"
      R"({"id":"blue","tokens":3,"score":2.5,"probability":0.81,"first_scored_token":2,)"
      R"("token_logprobs":[-0.25],"sum_logprob":-0.25,"entropy":[2.0],"min_logit":[-3.0],)"
      R"("max_logit":[3.0],"values":[0.7],"top_logprobs":[{"ids":[9,7],"logprobs":[-0.25,-1.0]}]},)"
      R"({"id":"","tokens":2,"score":-0.125,"probability":0.08}],)"
      R"("choice":{"index":1,"id":"blue","probability":0.81,"margin":0.7},)"
      R"("distribution":[0.11,0.81,0.08]},)"
      R"({"id":"odd","candidates":[)"
      R"({"id":"yes","tokens":3,"score":1.0,"probability":0.75,"first_scored_token":1,)"
      R"("token_logprobs":[-1.0,-2.0],"sum_logprob":-3.0,"entropy":[1.0,2.0],)"
      R"("min_logit":[-1.0,-2.0],"max_logit":[1.0,2.0],"values":[0.3,0.2,0.1],)"
      R"("top_logprobs":[{"ids":[2],"logprobs":[-1.0]},{"ids":[3],"logprobs":[-2.0]}]},)"
      R"({"id":"no","tokens":2,"score":-0.1,"probability":0.25,"first_scored_token":1,)"
      R"("token_logprobs":[-4.0],"sum_logprob":-4.0,"entropy":[1.0],"min_logit":[-1.0],)"
      R"("max_logit":[1.0],"values":[0.3,0.9],"top_logprobs":[{"ids":[2,4],"logprobs":[-1.0,-4.0]}]}],)"
      R"("boolean":{"probability":0.75,"value":true},"distribution":[0.75,0.25]}],)"
      R"("vectors":{"dtype":"float32","shape":[5,2],)"
      R"("rows":[[0.0,1.0],[0.0,2.0],[1.0,0.0],[3.0,4.0],[-0.5,0.5]]},)"
      R"("stats":{"backend":"segmented","policy":"reference","reason":"","layout":"flat",)"
      R"("path_tokens":20,"input_tokens":14,"unique_tokens":9,"forest_tokens":9,)"
      R"("computed_tokens":7,"cached_tokens":2,"mask_bytes":324,"segment_groups":2,"parts":1,)"
      R"("batch_requests":1,"decode_ms":0.1,"queue_ms":0.2,"plan_ms":0.3,"device_ms":4.0,)"
      R"("encode_queue_ms":0.02,"encode_ms":0.05,"total_ms":4.67}})");
}

TEST(AnswerJsonTest, UnscoredCandidatesHaveAReasonAndANullRow) {
  const std::string json = ScoreResponseToJson(UnscoredResponse());
  EXPECT_THAT(json, HasSubstr(R"({"id":"red","tokens":4,"unscored_reason":"non_finite"},)"));
  EXPECT_THAT(json, HasSubstr(R"("rows":[null,[0.0,2.0],)"));
  EXPECT_THAT(json, Not(HasSubstr("nan")));
}

TEST(AnswerJsonTest, ACandidateThatLacksOneOutputKeepsItsRow) {
  v1::ScoreResponse response = SampleResponse();
  v1::CandidateResult* candidate = response.mutable_results(0)->mutable_candidates(0);
  candidate->set_unscored_reason("non_finite");
  candidate->add_unscored_outputs("entropy");
  std::string json = ScoreResponseToJson(response);
  EXPECT_THAT(json, HasSubstr(R"("unscored_reason":"non_finite","unscored_outputs":["entropy"])"));
  EXPECT_THAT(json, HasSubstr(R"("rows":[[0.0,1.0],)"));
  candidate->add_unscored_outputs("vectors");
  EXPECT_THAT(ScoreResponseToJson(response), HasSubstr(R"("rows":[null,[0.0,2.0],)"));
}

TEST(AnswerJsonTest, RanksAreIntegersAfterTheOlderOutputs) {
  v1::ScoreResponse response;
  v1::CandidateResult* candidate = response.add_results()->add_candidates();
  candidate->set_first_scored_token(2);
  candidate->add_token_ranks(1);
  candidate->add_token_ranks(151'936);
  candidate->add_values(0.5);
  EXPECT_THAT(ScoreResponseToJson(response),
              HasSubstr(R"({"id":"","tokens":0,"first_scored_token":2,"values":[0.5],)"
                        R"("token_ranks":[1,151936]})"));
}

TEST(AnswerJsonTest, OtherElementTypesAreBase64) {
  v1::ScoreResponse response;
  response.mutable_vectors()->set_dtype(v1::DTYPE_BFLOAT16);
  response.mutable_vectors()->add_shape(1);
  response.mutable_vectors()->add_shape(2);
  response.mutable_vectors()->set_data(std::string("\x80\x3F\x00\x40", 4));
  EXPECT_THAT(ScoreResponseToJson(response),
              HasSubstr(R"("vectors":{"dtype":"bfloat16","shape":[1,2],"base64":"gD8AQA=="})"));
}

TEST(AnswerJsonTest, LevelsAndLabels) {
  v1::ScoreResponse response;
  v1::QuestionResult* result = response.add_results();
  result->mutable_score()->set_level(2);
  result->mutable_score()->set_expected(1.5);
  result->add_candidates()->add_label_scores(0.25);
  result->mutable_candidates(0)->add_label_scores(1);
  EXPECT_THAT(ScoreResponseToJson(response),
              HasSubstr(R"({"id":"","candidates":[{"id":"","tokens":0,"label_scores":[0.25,1.0]}],)"
                        R"("score":{"level":2,"expected":1.5}})"));
}

TEST(AnswerJsonTest, TextIsAscii) {
  v1::ScoreResponse response;
  response.set_request_id("\x1b[2J \xe2\x80\xae \x7f \"");
  EXPECT_THAT(ScoreResponseToJson(response),
              HasSubstr(R"({"request_id":"\u001b[2J \u202e \u007f \"",)"));
}

TEST(AnswerJsonTest, Explanation) {
  EXPECT_THAT(
      ExplainResponseToJson(SampleExplanation()),
      HasSubstr(R"("questions":[{"id":"color","nodes":[)"
                R"({"parent":-1,"start_depth":0,"tokens":[5,6],"candidates":[2]},)"
                R"({"parent":0,"start_depth":2,"tokens":[7,8],"candidates":[0]},)"
                R"({"parent":0,"start_depth":2,"tokens":[9],"candidates":[1]}]},{"id":"odd",)"));
  EXPECT_THAT(ExplainResponseToJson(SampleExplanation()),
              HasSubstr(R"("work":{"outputs":["scores","token_logprobs"],"computed_tokens":14,)"
                        R"("endpoint_rows":5,"distribution_rows":6,"value_rows":0,)"
                        R"("answer_bytes":24},"forecasts":[{"backend":"path",)"
                        R"("predicted_ms":1.5,"forwards":1,"computed_tokens":20},)"));
  EXPECT_THAT(ExplainResponseToJson(SampleExplanation()), Not(HasSubstr("svg")));
}

TEST(AnswerJsonTest, Models) {
  v1::ListModelsResponse response;
  *response.add_models() = SampleModel();
  EXPECT_EQ(ModelsToJson(response),
            R"({"models":[{"name":"demo","version":3,"fingerprint":"9f86d081884c7d65",)"
            R"("architecture":"Qwen3ForCausalLM","parameters":1234567,"hidden_size":64,)"
            R"("vocab_size":259,"max_path_tokens":2048,"num_labels":1,)"
            R"("heads":["vectors","reward"],)"
            R"("dtype":"float32","device":"cpu","support":"tree","support_reason":"",)"
            R"("default_policy":"reference","policy_reason":"",)"
            R"("limits":{"max_paths":65536,"max_questions":4096},)"
            R"("vocabulary_hash":"","build":"0.1","pooling":"last","folder_normalizes":true,)"
            R"("token_forms":["ids","raw","raw64"],"pad_token":258}]})");
  EXPECT_EQ(ModelsToJson(v1::ListModelsResponse()), R"({"models":[]})");
}

}  // namespace
}  // namespace canopy::client
