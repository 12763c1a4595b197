// Probabilities and answers from a real server for each kind of question, with a head that scores
// candidates one by one and with a head over whole questions.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr v1::QuestionKind kKinds[] = {v1::QUESTION_KIND_PLAIN, v1::QUESTION_KIND_BOOLEAN,
                                       v1::QUESTION_KIND_CHOICE, v1::QUESTION_KIND_SCORE};

std::vector<int32_t> PathOf(const v1::Question& question, int candidate) {
  std::vector<int32_t> path(question.prefix().ids().begin(), question.prefix().ids().end());
  const auto& tokens = question.candidates(candidate).tokens().ids();
  path.insert(path.end(), tokens.begin(), tokens.end());
  return path;
}

// Returns a request with a question of each kind, with different tokens.
v1::ScoreRequest TypedRequest(const std::string& model) {
  v1::ScoreRequest request;
  request.set_model(model);
  request.mutable_outputs()->set_scores(true);
  request.mutable_outputs()->set_probabilities(true);
  uint32_t token = 1;
  for (const v1::QuestionKind kind : kKinds) {
    std::vector<std::vector<uint32_t>> candidates(kind == v1::QUESTION_KIND_BOOLEAN ? 2 : 5);
    for (std::vector<uint32_t>& tokens : candidates) {
      tokens = {token++};
    }
    v1::Question* question = AddQuestion(&request, {900, token++}, candidates);
    question->set_kind(kind);
    question->mutable_candidates(1)->set_id("second");
  }
  return request;
}

// Returns the fake decision head's scores of a question, without the candidates in `left_out`.
std::vector<float> DecisionScores(const v1::Question& question, const std::vector<int>& left_out) {
  std::vector<std::vector<float>> vectors;
  for (int i = 0; i < question.candidates_size(); ++i) {
    if (std::find(left_out.begin(), left_out.end(), i) == left_out.end()) {
      vectors.push_back(FakeVector(PathOf(question, i), 8));
    }
  }
  std::vector<float> scores;
  for (size_t i = 0; i < vectors.size(); ++i) {
    scores.push_back(FakeDecision(vectors, i));
  }
  return scores;
}

// Checks that the answer's distribution is the softmax of its scores, and that the answer follows
// from it.
void ExpectDecision(const v1::Question& question, const v1::QuestionResult& result,
                    double temperature) {
  double sum = 0;
  for (const v1::CandidateResult& candidate : result.candidates()) {
    sum += std::exp(candidate.score() / temperature);
  }
  const int count = question.candidates_size();
  ASSERT_EQ(result.distribution_size(), count);
  int top = 0;
  for (int i = 0; i < count; ++i) {
    const float p = result.distribution(i);
    EXPECT_NEAR(p, std::exp(result.candidates(i).score() / temperature) / sum, 1e-6);
    EXPECT_EQ(result.candidates(i).probability(), p);
    top = p > result.distribution(top) ? i : top;
  }
  EXPECT_EQ(result.has_boolean(), question.kind() == v1::QUESTION_KIND_BOOLEAN);
  EXPECT_EQ(result.has_choice(), question.kind() == v1::QUESTION_KIND_CHOICE);
  EXPECT_EQ(result.has_score(), question.kind() == v1::QUESTION_KIND_SCORE);
  if (result.has_boolean()) {
    EXPECT_EQ(result.boolean().probability(), result.distribution(0));
    EXPECT_EQ(result.boolean().value(), top == 0);
  }
  if (result.has_choice()) {
    EXPECT_EQ(result.choice().index(), static_cast<uint32_t>(top));
    EXPECT_EQ(result.choice().id(), question.candidates(top).id());
    EXPECT_EQ(result.choice().probability(), result.distribution(top));
  }
  if (result.has_score()) {
    EXPECT_EQ(result.score().level(), static_cast<uint32_t>(top));
    double expected = 0;
    for (int i = 0; i < count; ++i) {
      expected += i * static_cast<double>(result.distribution(i));
    }
    EXPECT_NEAR(result.score().expected(), expected, 1e-6);
  }
}

TEST(DecisionTest, EachKindGetsItsAnswerAtItsTemperature) {
  TestServer server;
  v1::ScoreResponse response;
  const v1::ScoreRequest plain = TypedRequest("reward");
  ASSERT_TRUE(Succeeded(server.Score(plain, &response)));
  for (int i = 0; i < plain.questions_size(); ++i) {
    EXPECT_EQ(response.results(i).candidates(1).score(),
              FakeScore(PathOf(plain.questions(i), 1), 0));
    ExpectDecision(plain.questions(i), response.results(i), 1);
  }
  const v1::ScoreRequest typed = TypedRequest("decision");
  ASSERT_TRUE(Succeeded(server.Score(typed, &response)));
  const double temperatures[] = {1, 0.5, 2, 4};
  for (int i = 0; i < typed.questions_size(); ++i) {
    ExpectDecision(typed.questions(i), response.results(i), temperatures[i]);
  }
}

// Runs on every route, in one part or with a question's candidates spread over several parts.
TEST(DecisionTest, TheHeadSeesWholeQuestionsForAnyParts) {
  for (const int64_t max_batch_tokens : {2'048, 8}) {
    server::ServerOptions options = FakeServerOptions();
    options.model.max_batch_tokens = max_batch_tokens;
    TestServer server(options);
    for (const v1::Backend backend : {v1::BACKEND_DENSE, v1::BACKEND_SEGMENTED, v1::BACKEND_PATH}) {
      v1::ScoreRequest request = TypedRequest("decision");
      request.mutable_routing()->set_backend(backend);
      request.mutable_outputs()->set_vectors(true);
      v1::ScoreResponse response;
      const grpc::Status status = server.Score(request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.stats().parts() > 1, max_batch_tokens == 8);
      for (int q = 0; q < request.questions_size(); ++q) {
        const std::vector<float> expected = DecisionScores(request.questions(q), {});
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(response.results(q).candidates(static_cast<int>(i)).score(), expected[i]);
        }
      }
      EXPECT_EQ(response.vectors().shape(0), 17U);
    }
  }
}

TEST(DecisionTest, OneUnscoredCandidateLeavesItsQuestionWithoutProbabilities) {
  TestServer server;
  server.controls().PoisonToken(500);
  for (const std::string model : {"reward", "decision"}) {
    for (const v1::Backend backend : {v1::BACKEND_DENSE, v1::BACKEND_PATH}) {
      v1::ScoreRequest request = TypedRequest(model);
      request.mutable_questions(2)->mutable_candidates(1)->mutable_tokens()->set_ids(0, 500);
      request.mutable_routing()->set_backend(backend);
      v1::ScoreResponse response;
      ASSERT_TRUE(Succeeded(server.Score(request, &response)));
      const v1::QuestionResult& choice = response.results(2);
      EXPECT_EQ(choice.answer_case(), v1::QuestionResult::ANSWER_NOT_SET);
      EXPECT_THAT(choice.distribution(), IsEmpty());
      EXPECT_EQ(choice.candidates(1).unscored_reason(), "non_finite");
      for (int i = 0; i < choice.candidates_size(); ++i) {
        EXPECT_EQ(choice.candidates(i).has_score(), i != 1);
        EXPECT_FALSE(choice.candidates(i).has_probability());
      }
      if (model == "decision") {
        EXPECT_EQ(choice.candidates(4).score(), DecisionScores(request.questions(2), {1})[3]);
      }
      EXPECT_TRUE(response.results(1).has_boolean());
      EXPECT_EQ(response.results(3).distribution_size(), 5);
    }
  }
}

TEST(DecisionTest, OnlyRequestedAnswersAreReturned) {
  TestServer server;
  v1::ScoreRequest request = TypedRequest("decision");
  request.mutable_outputs()->set_scores(false);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_FALSE(response.results(2).candidates(0).has_score());
  EXPECT_TRUE(response.results(2).candidates(0).has_probability());
  EXPECT_TRUE(response.results(2).has_choice());
  request.clear_outputs();
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_TRUE(response.results(2).candidates(0).has_score());
  EXPECT_FALSE(response.results(2).candidates(0).has_probability());
  EXPECT_EQ(response.results(2).answer_case(), v1::QuestionResult::ANSWER_NOT_SET);
}

TEST(DecisionTest, TheMissingHeadIsNamed) {
  TestServer server;
  grpc::ClientContext context;
  SetTestDeadline(&context);
  v1::GetModelRequest request;
  request.set_name("decision");
  v1::Model model;
  ASSERT_TRUE(Succeeded(server.stub().GetModel(&context, request, &model)));
  EXPECT_THAT(model.heads(), ElementsAre("vectors", "decision"));
}

}  // namespace
}  // namespace canopy::testing
