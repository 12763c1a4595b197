// Applies every error that a server can make to a right answer, and expects the check to find it.
#include "client/answer_check.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct ScoreCase {
  std::string place;  // in the error
  std::function<void(v1::ScoreResponse*)> corrupt;
};

v1::CandidateResult* Candidate(v1::ScoreResponse* response, int question, int candidate) {
  return response->mutable_results(question)->mutable_candidates(candidate);
}

// Applies each case to `right`, the answer to `request`, and expects an error.
void ExpectRefused(const v1::ScoreRequest& request, const v1::ScoreResponse& right,
                   const std::vector<ScoreCase>& cases) {
  ASSERT_TRUE(CheckScoreResponse(request, right).ok()) << CheckScoreResponse(request, right);
  for (const ScoreCase& each : cases) {
    v1::ScoreResponse response = right;
    each.corrupt(&response);
    const absl::Status status = CheckScoreResponse(request, response);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << each.place;
    EXPECT_THAT(std::string(status.message()), HasSubstr(each.place));
  }
}

using Response = v1::ScoreResponse;
using Candidates = v1::CandidateResult;

TEST(ScoreCheckTest, RefusesAnotherRequestsAnswer) {
  v1::ScoreRequest request = SampleRequest();
  request.set_min_model_version(3);
  ExpectRefused(request, SampleResponse(),
                {{"request_id", [](Response* r) { r->set_request_id("r2"); }},
                 {"model is", [](Response* r) { r->set_model("other"); }},
                 {"model_version: 2", [](Response* r) { r->set_model_version(2); }}});
}

TEST(ScoreCheckTest, RefusesWrongCountsAndOrders) {
  ExpectRefused(
      SampleRequest(), SampleResponse(),
      {{"results: 1 instead of 2", [](Response* r) { r->mutable_results()->RemoveLast(); }},
       {"results: 0 instead of 2", [](Response* r) { r->clear_results(); }},
       {"results: 3 instead of 2", [](Response* r) { r->add_results(); }},
       {"results[0].id", [](Response* r) { r->mutable_results()->SwapElements(0, 1); }},
       {"results[0].candidates: 2 instead of 3",
        [](Response* r) { r->mutable_results(0)->mutable_candidates()->RemoveLast(); }},
       {"results[1].candidates: 3 instead of 2",
        [](Response* r) { r->mutable_results(1)->add_candidates(); }},
       {"results[0].candidates[0].id",
        [](Response* r) { r->mutable_results(0)->mutable_candidates()->SwapElements(0, 1); }},
       {"results[1].candidates[0].tokens: 4 instead of 3",
        [](Response* r) { Candidate(r, 1, 0)->set_tokens(4); }}});
}

TEST(ScoreCheckTest, RefusesMissingOrNonFiniteNumbers) {
  ExpectRefused(
      SampleRequest(), SampleResponse(),
      {{"candidates[2] has neither", [](Response* r) { Candidate(r, 0, 2)->clear_score(); }},
       {".score: nan", [](Response* r) { Candidate(r, 0, 0)->set_score(kNan); }},
       {".score: inf", [](Response* r) { Candidate(r, 0, 0)->set_score(kInfinity); }},
       {".label_scores: nan", [](Response* r) { Candidate(r, 0, 0)->add_label_scores(kNan); }},
       {".probability: nan", [](Response* r) { Candidate(r, 1, 1)->set_probability(kNan); }},
       {".sum_logprob: -inf", [](Response* r) { Candidate(r, 1, 1)->set_sum_logprob(-kInfinity); }},
       {".sum_logprob is missing", [](Response* r) { Candidate(r, 1, 1)->clear_sum_logprob(); }},
       {"results[1].candidates[1].probability is missing",
        [](Response* r) { Candidate(r, 1, 1)->clear_probability(); }},
       {".distribution: nan",
        [](Response* r) { r->mutable_results(0)->set_distribution(1, kNan); }},
       {".distribution: 4 instead of 3",
        [](Response* r) { r->mutable_results(0)->add_distribution(0); }}});
}

TEST(ScoreCheckTest, RefusesAWrongAnswer) {
  ExpectRefused(
      SampleRequest(), SampleResponse(),
      {{"results[1].boolean is missing",
        [](Response* r) { r->mutable_results(1)->clear_answer(); }},
       {"results[0].choice", [](Response* r) { r->mutable_results(0)->mutable_boolean(); }},
       {"results[0].choice",
        [](Response* r) { r->mutable_results(0)->mutable_choice()->set_index(3); }},
       {"results[0].choice",
        [](Response* r) { r->mutable_results(0)->mutable_choice()->set_index(4'000'000'000); }},
       {"results[0].choice",
        [](Response* r) { r->mutable_results(0)->mutable_choice()->set_id("red"); }},
       {"results[0].choice: nan",
        [](Response* r) { r->mutable_results(0)->mutable_choice()->set_margin(kNan); }}});
  v1::ScoreRequest request = SampleRequest();
  request.mutable_questions(0)->set_kind(v1::QUESTION_KIND_SCORE);
  v1::ScoreResponse right = SampleResponse();
  right.mutable_results(0)->mutable_score()->set_level(2);
  ExpectRefused(request, right,
                {{"results[0].score", [](Response* r) { r->mutable_results(0)->clear_answer(); }},
                 {"results[0].score",
                  [](Response* r) { r->mutable_results(0)->mutable_score()->set_level(3); }},
                 {"results[0].score: inf", [](Response* r) {
                    r->mutable_results(0)->mutable_score()->set_expected(kInfinity);
                  }}});
}

TEST(ScoreCheckTest, RefusesShortOrLongPerTokenLists) {
  ExpectRefused(
      SampleRequest(), SampleResponse(),
      {{".token_logprobs: 1 instead of 2",
        [](Response* r) { Candidate(r, 0, 0)->mutable_token_logprobs()->RemoveLast(); }},
       {".token_logprobs: 1 instead of 0",
        [](Response* r) { Candidate(r, 0, 2)->add_token_logprobs(-1); }},
       {".token_logprobs: nan",
        [](Response* r) { Candidate(r, 0, 0)->set_token_logprobs(1, kNan); }},
       {".entropy: 3 instead of 2", [](Response* r) { Candidate(r, 0, 0)->add_entropy(1); }},
       {".min_logit: 0 instead of 1", [](Response* r) { Candidate(r, 0, 1)->clear_min_logit(); }},
       {".max_logit: 0 instead of 1", [](Response* r) { Candidate(r, 0, 1)->clear_max_logit(); }},
       {".values: 0 instead of 3", [](Response* r) { Candidate(r, 1, 0)->clear_values(); }},
       {".top_logprobs: 0 instead of 1",
        [](Response* r) { Candidate(r, 1, 1)->clear_top_logprobs(); }},
       {".top_logprobs[0]: 3 tokens",
        [](Response* r) {
          Candidate(r, 1, 1)->mutable_top_logprobs(0)->add_ids(9);
          Candidate(r, 1, 1)->mutable_top_logprobs(0)->add_logprobs(-9);
        }},
       {".top_logprobs[1]: 0 tokens",
        [](Response* r) { Candidate(r, 1, 0)->mutable_top_logprobs(1)->Clear(); }},
       {".top_logprobs[0].logprobs: 1 instead of 2",
        [](Response* r) {
          Candidate(r, 1, 1)->mutable_top_logprobs(0)->mutable_logprobs()->RemoveLast();
        }},
       {".first_scored_token: 0 instead of 1",
        [](Response* r) { Candidate(r, 1, 0)->clear_first_scored_token(); }}});
}

TEST(ScoreCheckTest, RanksCountFromOneAndThereIsOneForEachScoredToken) {
  v1::ScoreRequest request = SampleRequest();
  request.mutable_outputs()->set_token_ranks(true);
  v1::ScoreResponse right = SampleResponse();
  for (v1::QuestionResult& question : *right.mutable_results()) {
    for (v1::CandidateResult& candidate : *question.mutable_candidates()) {
      for (int i = 0; i < candidate.token_logprobs_size(); ++i) {
        candidate.add_token_ranks(1);
      }
    }
  }
  ExpectRefused(
      request, right,
      {{".token_ranks: 1 instead of 2",
        [](Response* r) { Candidate(r, 0, 0)->mutable_token_ranks()->RemoveLast(); }},
       {".token_ranks: 0 instead of 1",
        [](Response* r) { Candidate(r, 0, 1)->clear_token_ranks(); }},
       {".token_ranks: 1 instead of 0",
        [](Response* r) { Candidate(r, 0, 2)->add_token_ranks(1); }},
       {"candidates[0].token_ranks: 0 without a reason",
        [](Response* r) { Candidate(r, 0, 0)->set_token_ranks(1, 0); }},
       {"candidates[0].unscored_outputs names token_ranks, which is there", [](Response* r) {
          Candidate(r, 0, 0)->set_unscored_reason("non_finite");
          Candidate(r, 0, 0)->add_unscored_outputs("token_ranks");
        }}});
}

TEST(ScoreCheckTest, PathScopeCoversThePrefix) {
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  for (const uint32_t token : {5, 6, 7}) {
    question->mutable_prefix()->add_ids(token);
  }
  question->add_candidates()->mutable_tokens()->add_ids(8);
  request.mutable_outputs()->set_scope(v1::SCOPE_PATH);
  request.mutable_outputs()->set_entropy(true);
  request.mutable_outputs()->set_values(true);
  v1::ScoreResponse right;
  v1::CandidateResult* result = right.add_results()->add_candidates();
  result->set_tokens(4);
  result->set_first_scored_token(1);
  for (int i = 0; i < 3; ++i) {
    result->add_entropy(1);
  }
  for (int i = 0; i < 4; ++i) {
    result->add_values(1);
  }
  ExpectRefused(request, right,
                {{".entropy: 1 instead of 3",
                  [](Response* r) { Candidate(r, 0, 0)->mutable_entropy()->Truncate(1); }},
                 {".values: 1 instead of 4",
                  [](Response* r) { Candidate(r, 0, 0)->mutable_values()->Truncate(1); }},
                 {".first_scored_token: 3 instead of 1",
                  [](Response* r) { Candidate(r, 0, 0)->set_first_scored_token(3); }}});
}

TEST(ScoreCheckTest, RefusesWrongVectors) {
  ExpectRefused(
      SampleRequest(), SampleResponse(),
      {{"vectors.shape", [](Response* r) { r->clear_vectors(); }},
       {"vectors.dtype", [](Response* r) { r->mutable_vectors()->set_dtype(v1::DTYPE_FLOAT16); }},
       {"vectors.shape", [](Response* r) { r->mutable_vectors()->set_shape(0, 4); }},
       {"vectors.shape", [](Response* r) { r->mutable_vectors()->set_shape(1, 0); }},
       {"vectors.shape", [](Response* r) { r->mutable_vectors()->add_shape(1); }},
       {"vectors.data: 39 bytes",
        [](Response* r) { r->mutable_vectors()->mutable_data()->pop_back(); }},
       {"vectors.data: 60 bytes",
        [](Response* r) { r->mutable_vectors()->mutable_data()->append(20, '\0'); }},
       // 5 x 2^62 x 4 bytes is 0 modulo 2^64.
       {"vectors.data: 0 bytes",
        [](Response* r) {
          r->mutable_vectors()->set_shape(1, uint64_t{1} << 62U);
          r->mutable_vectors()->clear_data();
        }},
       {"vectors[0] is not finite", [](Response* r) {
          r->mutable_vectors()->mutable_data()->replace(0, 4, std::string("\0\0\xC0\x7F", 4));
        }}});
}

TEST(ScoreCheckTest, AcceptsUnscoredCandidatesOnlyWithoutNumbers) {
  ExpectRefused(
      SampleRequest(), UnscoredResponse(),
      {{"candidates[0] is unscored", [](Response* r) { Candidate(r, 0, 0)->set_score(0); }},
       {"candidates[0] is unscored", [](Response* r) { Candidate(r, 0, 0)->set_probability(0); }},
       {"candidates[0] is unscored", [](Response* r) { Candidate(r, 0, 0)->add_label_scores(0); }},
       {"results[0] has an answer", [](Response* r) { r->mutable_results(0)->mutable_choice(); }},
       {"candidates[0] has neither",
        [](Response* r) { Candidate(r, 0, 0)->clear_unscored_reason(); }}});
}

// One output of one candidate is missing, and all others are checked as usual.
TEST(ScoreCheckTest, AnOutputThatIsNamedAsUnscoredMustBeAbsentAndTheOthersPresent) {
  const v1::ScoreRequest request = SampleRequest();
  const auto lacks = [](const std::string& field, const std::function<void(Candidates*)>& clear) {
    v1::ScoreResponse response = SampleResponse();
    v1::CandidateResult* candidate = Candidate(&response, 1, 0);
    candidate->set_unscored_reason("non_finite");
    candidate->add_unscored_outputs(field);
    clear(candidate);
    return response;
  };
  const auto nothing = [](Candidates*) {};
  const auto is_wrong = [&](const v1::ScoreResponse& response, const std::string& place) {
    const absl::Status status = CheckScoreResponse(request, response);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << place;
    EXPECT_THAT(std::string(status.message()), HasSubstr(place));
  };
  const std::vector<std::pair<std::string, std::function<void(Candidates*)>>> outputs = {
      {"token_logprobs",
       [](Candidates* c) {
         c->clear_token_logprobs();
         c->clear_sum_logprob();
       }},
      {"entropy", [](Candidates* c) { c->clear_entropy(); }},
      {"vocab_range",
       [](Candidates* c) {
         c->clear_min_logit();
         c->clear_max_logit();
       }},
      {"values", [](Candidates* c) { c->clear_values(); }},
      {"top_logprobs", [](Candidates* c) { c->clear_top_logprobs(); }},
  };
  for (const auto& [field, clear] : outputs) {
    const absl::Status status = CheckScoreResponse(request, lacks(field, clear));
    EXPECT_TRUE(status.ok()) << field << ": " << status;
    is_wrong(lacks(field, nothing), "unscored_outputs names " + field);
    // An output is named although it is present, or missing without being named.
    v1::ScoreResponse unnamed = lacks(field, clear);
    Candidate(&unnamed, 1, 0)->clear_unscored_reason();
    EXPECT_EQ(CheckScoreResponse(request, unnamed).code(), absl::StatusCode::kDataLoss) << field;
    v1::ScoreResponse other = lacks(field, clear);
    Candidate(&other, 1, 0)->set_unscored_outputs(0, "vectors");
    EXPECT_EQ(CheckScoreResponse(request, other).code(), absl::StatusCode::kDataLoss) << field;
  }
  is_wrong(lacks("scores", nothing), "unscored_outputs names scores");
  is_wrong(lacks("scores", [](Candidates* c) { c->clear_score(); }), "has an answer beside");
  v1::ScoreResponse scoreless = lacks("scores", [](Candidates* c) { c->clear_score(); });
  v1::QuestionResult* question = scoreless.mutable_results(1);
  Candidate(&scoreless, 1, 0)->add_unscored_outputs("probabilities");
  for (v1::CandidateResult& candidate : *question->mutable_candidates()) {
    candidate.clear_probability();
  }
  is_wrong(scoreless, "has an answer beside an unscored candidate");
  question->clear_answer();
  question->clear_distribution();
  EXPECT_TRUE(CheckScoreResponse(request, scoreless).ok())
      << CheckScoreResponse(request, scoreless);
  // Row 3 belongs to the candidate.
  v1::ScoreResponse rowless = lacks("vectors", nothing);
  rowless.mutable_vectors()->mutable_data()->replace(24, 8,
                                                     std::string("\0\0\xC0\x7F\0\0\xC0\x7F", 8));
  EXPECT_TRUE(CheckScoreResponse(request, rowless).ok()) << CheckScoreResponse(request, rowless);
  Candidate(&rowless, 1, 0)->set_unscored_outputs(0, "entropy");
  Candidate(&rowless, 1, 0)->clear_entropy();
  is_wrong(rowless, "vectors[3] is not finite");
}

TEST(ScoreCheckTest, EmptyOutputsNeedScoresOrVectors) {
  v1::ScoreRequest request = SampleRequest();
  request.clear_outputs();
  v1::ScoreResponse scores = SampleResponse();
  scores.clear_vectors();
  ExpectRefused(request, scores,
                {{"has neither", [](Response* r) { Candidate(r, 1, 1)->clear_score(); }}});
  v1::ScoreResponse vectors = SampleResponse();
  for (v1::QuestionResult& question : *vectors.mutable_results()) {
    for (v1::CandidateResult& candidate : *question.mutable_candidates()) {
      candidate.clear_score();
    }
  }
  ExpectRefused(request, vectors,
                {{"has neither", [](Response* r) { r->clear_vectors(); }},
                 {"vectors.shape", [](Response* r) { r->mutable_vectors()->clear_shape(); }}});
}

TEST(ExplainCheckTest, RefusesATreeThatDoesNotSpellThePaths) {
  using Explanation = v1::ExplainResponse;
  struct Case {
    std::string place;
    std::function<void(Explanation*)> corrupt;
  };
  const auto node = [](Explanation* r, int question, int index) {
    return r->mutable_questions(question)->mutable_nodes(index);
  };
  v1::ExplainRequest request;
  *request.mutable_request() = SampleRequest();
  request.set_svg(true);
  ASSERT_TRUE(CheckExplainResponse(request, SampleExplanation()).ok())
      << CheckExplainResponse(request, SampleExplanation());
  for (const Case& each : std::vector<Case>{
           {"questions: 1 instead of 2",
            [](Explanation* r) { r->mutable_questions()->RemoveLast(); }},
           {"questions[0].id", [](Explanation* r) { r->mutable_questions()->SwapElements(0, 1); }},
           {"svg is missing", [](Explanation* r) { r->clear_svg(); }},
           {"nodes[1].parent: 1 ", [&](Explanation* r) { node(r, 0, 1)->set_parent(1); }},
           {"nodes[1].parent: 2 ", [&](Explanation* r) { node(r, 0, 1)->set_parent(2); }},
           {"nodes[1].parent: -2 ", [&](Explanation* r) { node(r, 0, 1)->set_parent(-2); }},
           {"nodes[1].start_depth: 0 instead of 2",
            [&](Explanation* r) { node(r, 0, 1)->set_start_depth(0); }},
           {"nodes[1].tokens is empty", [&](Explanation* r) { node(r, 0, 1)->clear_tokens(); }},
           {"nodes[1].candidates: 0 has another path",
            [&](Explanation* r) { node(r, 0, 1)->set_tokens(1, 9); }},
           {"nodes[1].candidates: 0 has another path",
            [&](Explanation* r) { node(r, 0, 1)->add_tokens(9); }},
           {"nodes[1].candidates: 1 has another path",
            [&](Explanation* r) { node(r, 0, 1)->set_candidates(0, 1); }},
           {"nodes[2].candidates: 3 is unknown",
            [&](Explanation* r) { node(r, 0, 2)->add_candidates(3); }},
           {"nodes[2].candidates: 0 is unknown or ends twice",
            [&](Explanation* r) { node(r, 0, 2)->set_candidates(0, 0); }},
           {"questions[0].candidates[2] ends at no node",
            [&](Explanation* r) { node(r, 0, 0)->clear_candidates(); }},
           {"questions[0].nodes[3] ends no candidate",
            [&](Explanation* r) {
              *r->mutable_questions(0)->add_nodes() = *node(r, 0, 1);
              node(r, 0, 3)->clear_candidates();
            }},
           {"questions[0].nodes[3].parent: 1 is not depth first",
            [&](Explanation* r) {
              *r->mutable_questions(0)->add_nodes() = *node(r, 0, 1);
              node(r, 0, 3)->set_parent(1);
            }},
       }) {
    Explanation response = SampleExplanation();
    each.corrupt(&response);
    const absl::Status status = CheckExplainResponse(request, response);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << each.place;
    EXPECT_THAT(std::string(status.message()), HasSubstr(each.place));
  }
}

TEST(ModelCheckTest, RefusesAnotherModel) {
  v1::GetModelRequest request;
  EXPECT_TRUE(CheckModel(request, SampleModel()).ok());
  EXPECT_EQ(CheckModel(request, v1::Model()).code(), absl::StatusCode::kDataLoss);
  request.set_name("other");
  EXPECT_EQ(CheckModel(request, SampleModel()).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace canopy::client
