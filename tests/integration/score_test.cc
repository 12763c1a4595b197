// The results of Score, Explain, GetModel and ListModels, compared with the fake's own numbers.
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<int32_t> PathOf(const v1::Question& question, int candidate) {
  std::vector<int32_t> path(question.prefix().ids().begin(), question.prefix().ids().end());
  const auto& tokens = question.candidates(candidate).tokens().ids();
  path.insert(path.end(), tokens.begin(), tokens.end());
  return path;
}

std::vector<uint32_t> RandomTokens(std::mt19937* random, int min_size, int max_size) {
  std::vector<uint32_t> tokens(std::uniform_int_distribution<size_t>(min_size, max_size)(*random));
  for (uint32_t& token : tokens) {
    token = (*random)() % 7;
  }
  return tokens;
}

// Returns questions with shared tokens, duplicate paths and paths inside others, each with an id.
v1::ScoreRequest RandomRequest(uint32_t seed, int num_questions) {
  std::mt19937 random(seed);
  v1::ScoreRequest request;
  request.set_request_id(absl::StrCat("request ", seed));
  for (int q = 0; q < num_questions; ++q) {
    std::vector<std::vector<uint32_t>> candidates;
    for (int c = 1 + static_cast<int>(random() % 9); c > 0; --c) {
      candidates.push_back(RandomTokens(&random, 0, 12));
    }
    v1::Question* question = AddQuestion(&request, RandomTokens(&random, 1, 40), candidates);
    question->set_id(absl::StrCat("q", q % 5));
    for (int c = 0; c < question->candidates_size(); ++c) {
      question->mutable_candidates(c)->set_id(absl::StrCat("c", random() % 3));
    }
  }
  return request;
}

void ExpectFakeScores(const v1::ScoreRequest& request, const v1::ScoreResponse& response) {
  EXPECT_EQ(response.request_id(), request.request_id());
  ASSERT_EQ(response.results_size(), request.questions_size());
  for (int q = 0; q < request.questions_size(); ++q) {
    const v1::Question& question = request.questions(q);
    const v1::QuestionResult& result = response.results(q);
    EXPECT_EQ(result.id(), question.id());
    ASSERT_EQ(result.candidates_size(), question.candidates_size());
    for (int c = 0; c < question.candidates_size(); ++c) {
      const std::vector<int32_t> path = PathOf(question, c);
      const v1::CandidateResult& candidate = result.candidates(c);
      EXPECT_EQ(candidate.id(), question.candidates(c).id());
      EXPECT_EQ(candidate.tokens(), path.size());
      ASSERT_TRUE(candidate.has_score());
      EXPECT_EQ(candidate.score(), FakeScore(path, 0)) << "question " << q << " candidate " << c;
      EXPECT_EQ(candidate.unscored_reason(), "");
    }
  }
}

TEST(ScoreTest, AnswersInRequestOrderOnEveryRoute) {
  TestServer server;
  uint32_t seed = 0;
  for (const v1::Backend backend :
       {v1::BACKEND_AUTO, v1::BACKEND_DENSE, v1::BACKEND_SEGMENTED, v1::BACKEND_PATH}) {
    for (const v1::Packing packing : {v1::PACKING_AUTO, v1::PACKING_PADDED}) {
      for (const int num_questions : {1, 2, 113}) {
        v1::ScoreRequest request = RandomRequest(++seed, num_questions);
        request.mutable_routing()->set_backend(backend);
        request.mutable_routing()->set_packing(packing);
        v1::ScoreResponse response;
        ASSERT_TRUE(Succeeded(server.Score(request, &response)));
        SCOPED_TRACE(absl::StrCat("seed ", seed, " ", response.stats().ShortDebugString()));
        ExpectFakeScores(request, response);
      }
    }
  }
}

TEST(ScoreTest, AnswersTheSameInManyParts) {
  server::ServerOptions options = FakeServerOptions();
  options.model.max_batch_tokens = 64;
  TestServer server(options);
  const v1::ScoreRequest request = RandomRequest(7, 129);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_GT(response.stats().parts(), 10U);
  ExpectFakeScores(request, response);
}

TEST(ScoreTest, NamesModelAndFillsStats) {
  TestServer server;
  v1::ScoreRequest request;
  AddQuestion(&request, {1, 2}, {{3}, {4, 5}, {}});
  request.mutable_routing()->set_backend(v1::BACKEND_DENSE);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_EQ(response.model(), "reward");
  EXPECT_EQ(response.model_version(), 1U);
  EXPECT_EQ(response.model_fingerprint(), "0123456789abcdef");
  EXPECT_FALSE(response.has_error());
  const v1::Stats& stats = response.stats();
  EXPECT_EQ(stats.backend(), v1::BACKEND_DENSE);
  EXPECT_EQ(stats.policy(), v1::POLICY_REFERENCE);
  EXPECT_EQ(stats.reason(), "");
  EXPECT_NE(stats.layout(), "");
  EXPECT_EQ(stats.path_tokens(), 12U);
  EXPECT_EQ(stats.input_tokens(), 9U);
  EXPECT_EQ(stats.unique_tokens(), 5U);
  EXPECT_EQ(stats.forest_tokens(), 5U);
  EXPECT_EQ(stats.computed_tokens(), 5U);
  EXPECT_EQ(stats.mask_bytes(), 100U);
  EXPECT_EQ(stats.parts(), 1U);
  EXPECT_EQ(stats.batch_requests(), 1U);
  double sum_ms = 0;
  for (const double stage_ms : {stats.decode_ms(), stats.plan_ms(), stats.device_ms(),
                                stats.encode_queue_ms(), stats.encode_ms(), stats.queue_ms()}) {
    EXPECT_GT(stage_ms, 0);
    sum_ms += stage_ms;
  }
  EXPECT_LE(sum_ms, stats.total_ms());
}

TEST(ScoreTest, TheReasonForThePathRouteIsReturned) {
  TestServer server;
  v1::ScoreRequest request;
  AddQuestion(&request, {1}, {{2}});
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_EQ(response.stats().backend(), v1::BACKEND_PATH);
  EXPECT_EQ(response.stats().reason(), "small_batch");
  EXPECT_EQ(response.stats().layout(), "");
  EXPECT_EQ(response.stats().unique_tokens(), 0U);
}

std::vector<float> Floats(const std::string& data) {
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

TEST(ScoreTest, ReturnsVectorsInRequestOrder) {
  TestServer server;
  v1::ScoreRequest request = RandomRequest(3, 17);
  request.mutable_outputs()->set_vectors(true);
  request.mutable_outputs()->set_scores(true);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  ExpectFakeScores(request, response);
  std::vector<float> expected;
  uint64_t num_paths = 0;
  for (const v1::Question& question : request.questions()) {
    for (int c = 0; c < question.candidates_size(); ++c, ++num_paths) {
      const std::vector<float> vector = FakeVector(PathOf(question, c), 8);
      expected.insert(expected.end(), vector.begin(), vector.end());
    }
  }
  EXPECT_EQ(response.vectors().dtype(), v1::DTYPE_FLOAT32);
  EXPECT_THAT(response.vectors().shape(), ElementsAre(num_paths, 8));
  EXPECT_EQ(Floats(response.vectors().data()), expected);
}

TEST(ScoreTest, ReturnsVectorsOfTheTypeAskedFor) {
  TestServer server;
  for (const v1::DType dtype : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    v1::ScoreRequest request = RandomRequest(4, 3);
    request.mutable_outputs()->set_vectors(true);
    request.mutable_outputs()->set_vector_dtype(dtype);
    v1::ScoreResponse response;
    ASSERT_TRUE(Succeeded(server.Score(request, &response)));
    EXPECT_EQ(response.vectors().dtype(), dtype);
    EXPECT_EQ(response.vectors().data().size(), response.vectors().shape(0) * 8 * 2);
    EXPECT_FALSE(response.results(0).candidates(0).has_score());
  }
}

TEST(ScoreTest, EmptyOutputsMeanWhatTheModelHas) {
  TestServer server;
  v1::ScoreRequest request;
  AddQuestion(&request, {1}, {{2}, {3}});
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_TRUE(response.results(0).candidates(0).has_score());
  EXPECT_FALSE(response.has_vectors());
  request.set_model("vectors");
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_FALSE(response.results(0).candidates(0).has_score());
  EXPECT_THAT(response.vectors().shape(), ElementsAre(2, 8));
  EXPECT_EQ(response.model(), "vectors");
}

TEST(ScoreTest, SeveralLabelsAreListed) {
  TestServer server;
  v1::ScoreRequest request;
  request.set_model("labels");
  AddQuestion(&request, {1}, {{2}});
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  const v1::CandidateResult& candidate = response.results(0).candidates(0);
  EXPECT_FALSE(candidate.has_score());
  EXPECT_THAT(candidate.label_scores(),
              ElementsAre(FakeScore({1, 2}, 0), FakeScore({1, 2}, 1), FakeScore({1, 2}, 2)));
}

TEST(ScoreTest, RawTokensMeanTheSameAsIds) {
  TestServer server;
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  const int32_t prefix[] = {1, 2};
  question->mutable_prefix()->set_raw(prefix, sizeof(prefix));
  const int32_t tokens[] = {999};
  question->add_candidates()->mutable_tokens()->set_raw(tokens, sizeof(tokens));
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_EQ(response.results(0).candidates(0).score(), FakeScore({1, 2, 999}, 0));
}

TEST(ScoreTest, OnlyPathsThatAreNotFiniteAloneStayUnscored) {
  TestServer server;
  server.controls().PoisonToken(500);
  for (const v1::Backend backend : {v1::BACKEND_DENSE, v1::BACKEND_PATH}) {
    v1::ScoreRequest request;
    AddQuestion(&request, {1, 2}, {{3}, {500, 4}, {5}});
    AddQuestion(&request, {1, 2}, {{6}});
    request.mutable_outputs()->set_scores(true);
    request.mutable_outputs()->set_vectors(true);
    request.mutable_routing()->set_backend(backend);
    v1::ScoreResponse response;
    ASSERT_TRUE(Succeeded(server.Score(request, &response)));
    const v1::QuestionResult& result = response.results(0);
    EXPECT_EQ(result.candidates(0).score(), FakeScore({1, 2, 3}, 0));
    EXPECT_FALSE(result.candidates(1).has_score());
    EXPECT_EQ(result.candidates(1).unscored_reason(), "non_finite");
    EXPECT_EQ(result.candidates(2).score(), FakeScore({1, 2, 5}, 0));
    EXPECT_EQ(response.results(1).candidates(0).score(), FakeScore({1, 2, 6}, 0));
    EXPECT_EQ(response.stats().reason(),
              backend == v1::BACKEND_DENSE ? "non_finite_rerun" : "requested");
    const std::vector<float> vectors = Floats(response.vectors().data());
    for (size_t i = 0; i < vectors.size(); ++i) {
      EXPECT_EQ(std::isnan(vectors[i]), i / 8 == 1) << i;
    }
  }
}

TEST(ScoreTest, TheMeasuredPolicyChoosesTheLowestForecastAndReportsIt) {
  TestServer server;
  v1::ScoreRequest request;
  request.set_model("measured");
  AddQuestion(&request, {1, 2, 3, 4}, {{5}, {6}, {7}, {8}});
  v1::ScoreResponse response;
  ASSERT_TRUE(server.Score(request, &response).ok());
  // Fused: 2 + 8 x 0.25 ms. Path: 1 + 20 x 0.5 ms.
  EXPECT_EQ(response.stats().backend(), v1::BACKEND_FUSED);
  EXPECT_EQ(response.stats().policy(), v1::POLICY_MEASURED);
  EXPECT_EQ(response.stats().reason(), "measured");
  EXPECT_EQ(response.stats().layout(), "flat");
  EXPECT_EQ(response.stats().forest_tokens(), 8U);
  request.mutable_routing()->set_policy(v1::POLICY_REFERENCE);
  ASSERT_TRUE(server.Score(request, &response).ok());
  EXPECT_EQ(response.stats().backend(), v1::BACKEND_PATH);
  EXPECT_EQ(response.stats().policy(), v1::POLICY_REFERENCE);
  EXPECT_EQ(response.stats().reason(), "small_batch");
}

TEST(ScoreTest, ModelsAreDescribed) {
  TestServer server;
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  ASSERT_TRUE(Succeeded(server.stub().ListModels(&context, {}, &models)));
  ASSERT_EQ(models.models_size(), 7);
  const v1::Model& first = models.models(0);
  EXPECT_EQ(first.name(), "reward");
  EXPECT_EQ(first.version(), 1U);
  EXPECT_EQ(first.hidden_size(), 8U);
  EXPECT_EQ(first.vocab_size(), 1'000U);
  EXPECT_EQ(first.max_path_tokens(), 2'048U);
  EXPECT_THAT(first.heads(), ElementsAre("vectors", "reward", "values"));
  EXPECT_EQ(first.support(), "tree");
  EXPECT_EQ(first.default_policy(), v1::POLICY_REFERENCE);
  EXPECT_EQ(models.models(6).default_policy(), v1::POLICY_MEASURED);
  EXPECT_THAT(first.limits(), ::testing::Contains(Pair("max_paths", 65'536)));
  EXPECT_THAT(first.limits(), ::testing::Contains(Pair("max_batch_tokens", 16'384)));
  // The limit is the actual number of threads, not the option 0, which means as many as there are
  // cores.
  EXPECT_THAT(first.limits(),
              ::testing::Contains(
                  Pair("encode_threads", ::testing::AllOf(::testing::Ge(2U), ::testing::Le(4U)))));
  EXPECT_NE(first.build(), "");
  EXPECT_THAT(models.models(2).heads(), ElementsAre("vectors"));
  EXPECT_THAT(models.models(5).heads(), ElementsAre("vectors", "reward", "logprobs", "values"));
  EXPECT_EQ(models.models(3).support(), "path");
  EXPECT_EQ(models.models(3).support_reason(), "sliding-window layers");

  grpc::ClientContext second_context;
  v1::GetModelRequest request;
  request.set_name("labels");
  v1::Model model;
  ASSERT_TRUE(Succeeded(server.stub().GetModel(&second_context, request, &model)));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(model, models.models(1)));
}

TEST(ExplainTest, ShowsWhatEachBackendWouldTake) {
  TestServer server;
  v1::ExplainRequest request;
  request.mutable_request()->set_model("measured");
  AddQuestion(request.mutable_request(), {1, 2, 3, 4}, {{5}, {6}, {7}, {8}});
  v1::ExplainResponse response;
  ASSERT_TRUE(server.Explain(request, &response).ok());
  ASSERT_EQ(response.forecasts_size(), 2);
  EXPECT_EQ(response.forecasts(0).backend(), v1::BACKEND_PATH);
  EXPECT_DOUBLE_EQ(response.forecasts(0).predicted_ms(), 11);
  EXPECT_EQ(response.forecasts(0).computed_tokens(), 20U);
  EXPECT_EQ(response.forecasts(1).backend(), v1::BACKEND_FUSED);
  EXPECT_DOUBLE_EQ(response.forecasts(1).predicted_ms(), 4);
  EXPECT_EQ(response.forecasts(1).forwards(), 1U);
  EXPECT_EQ(response.stats().backend(), v1::BACKEND_FUSED);
  request.mutable_request()->set_model("reward");
  ASSERT_TRUE(server.Explain(request, &response).ok());
  EXPECT_EQ(response.forecasts_size(), 0);
}

TEST(ExplainTest, PlansAndDrawsWithoutRunning) {
  TestServer server;
  v1::ExplainRequest request;
  AddQuestion(request.mutable_request(), {1, 2}, {{3}, {4, 5}, {}, {3}})->set_id("<q>");
  request.set_svg(true);
  v1::ExplainResponse response;
  ASSERT_TRUE(Succeeded(server.Explain(request, &response)));
  EXPECT_EQ(server.controls().forwards(), 0);
  EXPECT_EQ(response.stats().backend(), v1::BACKEND_PATH);
  EXPECT_EQ(response.stats().reason(), "small_batch");
  EXPECT_EQ(response.stats().unique_tokens(), 5U);
  EXPECT_EQ(response.stats().input_tokens(), 12U);
  ASSERT_EQ(response.questions_size(), 1);
  EXPECT_EQ(response.questions(0).id(), "<q>");
  const auto& nodes = response.questions(0).nodes();
  ASSERT_EQ(nodes.size(), 3);
  EXPECT_EQ(nodes[0].parent(), -1);
  EXPECT_THAT(nodes[0].tokens(), ElementsAre(1, 2));
  EXPECT_THAT(nodes[0].candidates(), ElementsAre(2));
  EXPECT_EQ(nodes[1].parent(), 0);
  EXPECT_EQ(nodes[1].start_depth(), 2U);
  EXPECT_THAT(nodes[1].tokens(), ElementsAre(3));
  EXPECT_THAT(nodes[1].candidates(), ElementsAre(0, 3));
  EXPECT_THAT(nodes[2].tokens(), ElementsAre(4, 5));
  EXPECT_TRUE(absl::StrContains(response.svg(), "<svg"));
  EXPECT_FALSE(absl::StrContains(response.svg(), "<q>"));

  request.set_svg(false);
  ASSERT_TRUE(Succeeded(server.Explain(request, &response)));
  EXPECT_THAT(response.svg(), IsEmpty());
}

// Returns the rows that the outputs of `request` read if nothing is computed twice: of one forward
// of its forest or, if `shared` is false, of every path alone.
v1::PlannedWork ExpectedRows(const v1::ScoreRequest& request, bool shared) {
  using Row =
      // the group in which it may be shared, and the path up to it
      std::pair<int, std::vector<int32_t>>;
  std::set<Row> endpoints;
  std::set<Row> contexts;
  std::set<Row> values;
  int num_paths = 0;
  for (int q = 0; q < request.questions_size(); ++q) {
    const v1::Question& question = request.questions(q);
    for (int c = 0; c < question.candidates_size(); ++c, ++num_paths) {
      const int scope = shared ? q : num_paths;
      const std::vector<int32_t> path = PathOf(question, c);
      const bool whole = request.outputs().scope() == v1::SCOPE_PATH;
      endpoints.emplace(scope, path);
      for (size_t token = whole ? 0 : question.prefix().ids_size(); token < path.size(); ++token) {
        values.emplace(scope, std::vector<int32_t>(path.begin(), path.begin() + token + 1));
        if (token > 0) {
          contexts.emplace(scope, std::vector<int32_t>(path.begin(), path.begin() + token));
        }
      }
    }
  }
  v1::PlannedWork work;
  work.set_endpoint_rows(endpoints.size());
  work.set_distribution_rows(contexts.size());
  work.set_value_rows(values.size());
  return work;
}

TEST(ExplainTest, PlansTheWorkThatScoreDoes) {
  TestServer server;
  uint32_t seed = 40;
  for (const v1::Backend backend : {v1::BACKEND_DENSE, v1::BACKEND_SEGMENTED, v1::BACKEND_PATH}) {
    for (const v1::Scope scope : {v1::SCOPE_CANDIDATE, v1::SCOPE_PATH}) {
      v1::ExplainRequest explain;
      v1::ScoreRequest* request = explain.mutable_request();
      *request = RandomRequest(++seed, 13);
      request->set_model("language");
      request->mutable_routing()->set_backend(backend);
      request->mutable_outputs()->set_scope(scope);
      request->mutable_outputs()->set_vectors(true);
      request->mutable_outputs()->set_token_logprobs(true);
      request->mutable_outputs()->set_entropy(true);
      request->mutable_outputs()->set_values(true);
      v1::ExplainResponse planned;
      ASSERT_TRUE(server.Explain(explain, &planned).ok());
      v1::ScoreResponse scored;
      ASSERT_TRUE(server.Score(*request, &scored).ok());
      const bool shared = scored.stats().backend() != v1::BACKEND_PATH;
      SCOPED_TRACE(absl::StrCat("seed ", seed, " ", planned.work().ShortDebugString()));

      const v1::PlannedWork expected = ExpectedRows(*request, shared);
      const v1::PlannedWork& work = planned.work();
      EXPECT_THAT(work.outputs(), ElementsAre("vectors", "token_logprobs", "entropy", "values"));
      EXPECT_EQ(work.computed_tokens(), scored.stats().computed_tokens());
      EXPECT_EQ(work.endpoint_rows(), expected.endpoint_rows());
      EXPECT_EQ(work.distribution_rows(), expected.distribution_rows());
      EXPECT_EQ(work.value_rows(), expected.value_rows());
      uint64_t answer_bytes = scored.vectors().data().size();
      for (const v1::QuestionResult& question : scored.results()) {
        for (const v1::CandidateResult& candidate : question.candidates()) {
          answer_bytes += 4 * (candidate.token_logprobs_size() + candidate.entropy_size() +
                               candidate.values_size());
        }
      }
      EXPECT_EQ(work.answer_bytes(), answer_bytes);
    }
  }
}

TEST(ExplainTest, DrawsAtMostTheRunsAskedFor) {
  TestServer server;
  v1::ExplainRequest request;
  *request.mutable_request() = RandomRequest(5, 113);
  request.set_svg(true);
  v1::ExplainResponse all;
  ASSERT_TRUE(Succeeded(server.Explain(request, &all)));
  request.set_max_svg_segments(3);
  v1::ExplainResponse few;
  ASSERT_TRUE(Succeeded(server.Explain(request, &few)));
  EXPECT_LT(few.svg().size(), all.svg().size() / 10);
  EXPECT_EQ(few.questions_size(), all.questions_size());
}

// Returns the same tokens in another form, with `width` bytes each.
v1::TokenIds InBytes(const v1::TokenIds& tokens, int width) {
  std::string bytes;
  for (const uint32_t token : tokens.ids()) {
    for (int byte = 0; byte < width; ++byte) {
      bytes += static_cast<char>(byte < 4 ? token >> (8 * byte) : 0);
    }
  }
  v1::TokenIds result;
  (width == 4 ? *result.mutable_raw() : *result.mutable_raw64()) = bytes;
  return result;
}

TEST(ScoreTest, TheFormOfTokensDoesNotChangeTheAnswer) {
  TestServer server;
  const v1::ScoreRequest request = RandomRequest(77, 20);
  v1::ScoreResponse expected;
  ASSERT_TRUE(Succeeded(server.Score(request, &expected)));
  ExpectFakeScores(request, expected);
  for (const int width : {4, 8}) {
    v1::ScoreRequest other = request;
    for (v1::Question& question : *other.mutable_questions()) {
      *question.mutable_prefix() = InBytes(question.prefix(), width);
      for (v1::Candidate& candidate : *question.mutable_candidates()) {
        *candidate.mutable_tokens() = InBytes(candidate.tokens(), width);
      }
    }
    v1::ScoreResponse response;
    ASSERT_TRUE(Succeeded(server.Score(other, &response)));
    ExpectFakeScores(request, response);
  }
  v1::Model model;
  grpc::ClientContext context;
  ASSERT_TRUE(Succeeded(server.stub().GetModel(&context, {}, &model)));
  EXPECT_THAT(model.token_forms(), ElementsAre("ids", "raw", "raw64"));
}

}  // namespace
}  // namespace canopy::testing
