// The per-token outputs of Score, compared with the fake's own numbers.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kTop = 3;

v1::ScoreRequest LanguageRequest() {
  v1::ScoreRequest request;
  request.set_model("language");
  return request;
}

void AskForAll(v1::ScoreRequest* request) {
  v1::Outputs& outputs = *request->mutable_outputs();
  outputs.set_token_logprobs(true);
  outputs.set_entropy(true);
  outputs.set_vocab_range(true);
  outputs.set_values(true);
  outputs.set_token_ranks(true);
  outputs.set_top_logprobs(kTop);
}

// Returns a request with shared tokens, duplicates, a path inside another, an empty prefix and
// empty tokens.
v1::ScoreRequest AwkwardRequest() {
  v1::ScoreRequest request = LanguageRequest();
  AddQuestion(&request, {1, 2, 3}, {{4, 5}, {4, 6, 7}, {}, {4}, {4, 5}});
  AddQuestion(&request, {}, {{8}, {8, 9}, {1, 2, 3, 4}});
  AddQuestion(&request, {1}, {{2}, std::vector<uint32_t>(40, 5)});
  AskForAll(&request);
  return request;
}

// Checks the lists of one candidate, whose entries are computed from the path alone.
void ExpectLists(const v1::Outputs& outputs, const v1::Question& question, int index,
                 const v1::CandidateResult& result) {
  std::vector<int32_t> path(question.prefix().ids().begin(), question.prefix().ids().end());
  const auto& tokens = question.candidates(index).tokens().ids();
  path.insert(path.end(), tokens.begin(), tokens.end());
  const size_t scope = outputs.scope() == v1::SCOPE_PATH ? 0 : question.prefix().ids().size();
  const size_t first = std::max<size_t>(scope, 1);
  const float temperature = outputs.has_temperature() ? outputs.temperature() : 1;
  const absl::Span<const int32_t> all = path;

  EXPECT_EQ(result.first_scored_token(), first);
  ASSERT_EQ(result.token_logprobs_size(), static_cast<int>(path.size() - first));
  ASSERT_EQ(result.entropy_size(), result.token_logprobs_size());
  ASSERT_EQ(result.min_logit_size(), result.token_logprobs_size());
  ASSERT_EQ(result.max_logit_size(), result.token_logprobs_size());
  ASSERT_EQ(result.top_logprobs_size(), result.token_logprobs_size());
  ASSERT_EQ(result.token_ranks_size(), result.token_logprobs_size());
  float sum = 0;
  for (int i = 0; i < result.token_logprobs_size(); ++i) {
    const auto context = all.first(first + static_cast<size_t>(i));
    const FakeDistribution distribution = FakeDistributionAfter(context, temperature);
    EXPECT_EQ(result.token_logprobs(i), FakeLogprob(context, path[context.size()], temperature));
    EXPECT_EQ(result.entropy(i), distribution.entropy);
    EXPECT_EQ(result.min_logit(i), distribution.min_logit);
    EXPECT_EQ(result.max_logit(i), distribution.max_logit);
    EXPECT_EQ(result.token_ranks(i),
              static_cast<uint32_t>(FakeRank(context, path[context.size()])));
    sum += result.token_logprobs(i);
    const v1::TopLogprobs& top = result.top_logprobs(i);
    ASSERT_EQ(top.ids_size(), kTop);
    ASSERT_EQ(top.logprobs_size(), kTop);
    for (int rank = 0; rank < kTop; ++rank) {
      const auto [id, logprob] = FakeTop(context, rank, temperature);
      EXPECT_EQ(top.ids(rank), static_cast<uint32_t>(id));
      EXPECT_EQ(top.logprobs(rank), logprob);
    }
  }
  EXPECT_EQ(result.has_sum_logprob(), path.size() > first);
  EXPECT_EQ(result.sum_logprob(), sum) << "sums of eighths are exact";
  ASSERT_EQ(result.values_size(), static_cast<int>(path.size() - scope));
  for (int i = 0; i < result.values_size(); ++i) {
    EXPECT_EQ(result.values(i), FakeValue(all.first(scope + static_cast<size_t>(i) + 1)));
  }
}

void ExpectAllLists(const v1::ScoreRequest& request, const v1::ScoreResponse& response) {
  ASSERT_EQ(response.results_size(), request.questions_size());
  for (int q = 0; q < request.questions_size(); ++q) {
    ASSERT_EQ(response.results(q).candidates_size(), request.questions(q).candidates_size());
    for (int c = 0; c < request.questions(q).candidates_size(); ++c) {
      SCOPED_TRACE(absl::StrCat("question ", q, " candidate ", c));
      ExpectLists(request.outputs(), request.questions(q), c, response.results(q).candidates(c));
    }
  }
}

TEST(TokenOutputsTest, EveryListOnEveryRouteInEitherScope) {
  TestServer server;
  for (const v1::Backend backend :
       {v1::BACKEND_AUTO, v1::BACKEND_DENSE, v1::BACKEND_SEGMENTED, v1::BACKEND_PATH}) {
    for (const v1::Scope scope : {v1::SCOPE_CANDIDATE, v1::SCOPE_PATH}) {
      v1::ScoreRequest request = AwkwardRequest();
      request.mutable_routing()->set_backend(backend);
      request.mutable_outputs()->set_scope(scope);
      request.mutable_outputs()->set_temperature(0.5);
      v1::ScoreResponse response;
      ASSERT_TRUE(Succeeded(server.Score(request, &response)));
      SCOPED_TRACE(response.stats().ShortDebugString());
      ExpectAllLists(request, response);
      EXPECT_FALSE(response.has_vectors());
      EXPECT_FALSE(response.results(0).candidates(0).has_score());
    }
  }
}

TEST(TokenOutputsTest, PartsAndSmallDevicesGiveTheSame) {
  server::ServerOptions options = FakeServerOptions();
  options.model.max_batch_tokens = 50;
  TestServer server(options);
  server.controls().LimitSlots(45);
  for (const v1::Backend backend : {v1::BACKEND_DENSE, v1::BACKEND_PATH}) {
    v1::ScoreRequest request = AwkwardRequest();
    request.mutable_routing()->set_backend(backend);
    v1::ScoreResponse response;
    ASSERT_TRUE(Succeeded(server.Score(request, &response)));
    EXPECT_GT(response.stats().parts(), 1U);
    ExpectAllLists(request, response);
  }
}

TEST(TokenOutputsTest, AnUnscoredPathHasNoListsAndOthersKeepTheirs) {
  TestServer server;
  server.controls().PoisonToken(500);
  v1::ScoreRequest request = LanguageRequest();
  AddQuestion(&request, {1, 2}, {{3}, {500, 4}, {5, 6}});
  AddQuestion(&request, {7}, {{8, 9}});
  AskForAll(&request);
  request.mutable_routing()->set_backend(v1::BACKEND_DENSE);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_EQ(response.stats().reason(), "non_finite_rerun");
  const v1::CandidateResult& unscored = response.results(0).candidates(1);
  EXPECT_EQ(unscored.unscored_reason(), "non_finite");
  EXPECT_FALSE(unscored.has_sum_logprob());
  EXPECT_EQ(unscored.token_logprobs_size() + unscored.entropy_size() + unscored.min_logit_size() +
                unscored.max_logit_size() + unscored.values_size() + unscored.top_logprobs_size() +
                unscored.token_ranks_size(),
            0);
  ExpectLists(request.outputs(), request.questions(0), 0, response.results(0).candidates(0));
  ExpectLists(request.outputs(), request.questions(0), 2, response.results(0).candidates(2));
  ExpectLists(request.outputs(), request.questions(1), 0, response.results(1).candidates(0));
}

TEST(TokenOutputsTest, OnlyRequestedOutputsAreReturned) {
  TestServer server;
  v1::ScoreRequest request = LanguageRequest();
  AddQuestion(&request, {1}, {{2, 3}});
  request.mutable_outputs()->set_entropy(true);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  const v1::CandidateResult& result = response.results(0).candidates(0);
  EXPECT_EQ(result.entropy_size(), 2);
  EXPECT_THAT(result.token_logprobs(), IsEmpty());
  EXPECT_THAT(result.values(), IsEmpty());
  EXPECT_THAT(result.token_ranks(), IsEmpty());
  EXPECT_FALSE(result.has_sum_logprob());
  EXPECT_FALSE(result.has_score());
}

TEST(TokenOutputsTest, MixesWithVectorsAndScoresInOneForward) {
  TestServer server;
  v1::ScoreRequest request = AwkwardRequest();
  request.mutable_outputs()->set_scores(true);
  request.mutable_outputs()->set_vectors(true);
  request.mutable_routing()->set_backend(v1::BACKEND_DENSE);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  EXPECT_EQ(server.controls().forwards(), 1);
  ExpectAllLists(request, response);
  EXPECT_EQ(response.results(0).candidates(0).score(), FakeScore({1, 2, 3, 4, 5}, 0));
  EXPECT_THAT(response.vectors().shape(), ElementsAre(10, 8));
}

}  // namespace
}  // namespace canopy::testing
