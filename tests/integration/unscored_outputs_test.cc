// An output that is not finite costs its candidate that output, and nothing else.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr uint32_t kPoison = 500;
constexpr int64_t kHidden = 8;

// Everything of two questions, the second candidate of the first with the token kPoison.
v1::ScoreRequest EverythingRequest() {
  v1::ScoreRequest request;
  request.set_model("language");
  AddQuestion(&request, {1, 2}, {{3, 4}, {kPoison, 4}, {5}});
  AddQuestion(&request, {7}, {{8, 9}, {9, 8}});
  v1::Outputs& outputs = *request.mutable_outputs();
  outputs.set_vectors(true);
  outputs.set_scores(true);
  outputs.set_probabilities(true);
  outputs.set_token_logprobs(true);
  outputs.set_entropy(true);
  outputs.set_vocab_range(true);
  outputs.set_values(true);
  outputs.set_top_logprobs(2);
  request.mutable_routing()->set_backend(v1::BACKEND_DENSE);
  return request;
}

v1::ScoreResponse MustScore(TestServer& server, const v1::ScoreRequest& request) {
  v1::ScoreResponse response;
  EXPECT_TRUE(Succeeded(server.Score(request, &response)));
  const absl::Status check = client::CheckScoreResponse(request, response);
  EXPECT_TRUE(check.ok()) << check;
  return response;
}

// What `right` has, without the outputs of `names`.
v1::CandidateResult Without(v1::CandidateResult right, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "scores") {
      right.clear_score();
    } else if (name == "token_logprobs") {
      right.clear_token_logprobs();
      right.clear_sum_logprob();
    } else if (name == "entropy") {
      right.clear_entropy();
    } else if (name == "vocab_range") {
      right.clear_min_logit();
      right.clear_max_logit();
    } else if (name == "values") {
      right.clear_values();
    } else if (name == "top_logprobs") {
      right.clear_top_logprobs();
    }
    right.add_unscored_outputs(name);
  }
  right.set_unscored_reason("non_finite");
  return right;
}

std::string Row(const v1::ScoreResponse& response, size_t row) {
  return response.vectors().data().substr(row * kHidden * sizeof(float), kHidden * sizeof(float));
}

struct OutputCase {
  OutputSet output;
  std::vector<std::string> names;
};

class UnscoredOutputTest : public ::testing::TestWithParam<OutputCase> {};

TEST_P(UnscoredOutputTest, IsAllThatItsCandidateLacks) {
  TestServer server;
  const v1::ScoreRequest request = EverythingRequest();
  v1::ScoreResponse right = MustScore(server, request);
  server.controls().PoisonOutputs(kPoison, GetParam().output);
  const v1::ScoreResponse response = MustScore(server, request);

  // One forward each: running again would give the same.
  EXPECT_EQ(server.controls().forwards(), 2);
  EXPECT_EQ(response.stats().reason(), right.stats().reason());
  EXPECT_EQ(response.stats().computed_tokens(), right.stats().computed_tokens());
  if (GetParam().output == kScoresOutput) {
    // The shares of a question with an unknown score are unknown.
    v1::QuestionResult& question = *right.mutable_results(0);
    EXPECT_THAT(response.results(0).distribution(), IsEmpty());
    question.clear_distribution();
    for (v1::CandidateResult& candidate : *question.mutable_candidates()) {
      candidate.clear_probability();
    }
  }
  v1::CandidateResult& poisoned = *right.mutable_results(0)->mutable_candidates(1);
  poisoned = Without(poisoned, GetParam().names);
  for (int q = 0; q < right.results_size(); ++q) {
    EXPECT_EQ(response.results(q).DebugString(), right.results(q).DebugString());
  }
  for (size_t row = 0; row < 5; ++row) {
    const bool lacks = row == 1 && GetParam().output == kVectorsOutput;
    EXPECT_EQ(Row(response, row) == Row(right, row), !lacks) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(EachOutput, UnscoredOutputTest,
                         ::testing::Values(OutputCase{kVectorsOutput, {"vectors"}},
                                           OutputCase{kScoresOutput, {"scores", "probabilities"}},
                                           OutputCase{kLogprobsOutput, {"token_logprobs"}},
                                           OutputCase{kEntropyOutput, {"entropy"}},
                                           OutputCase{kVocabRangeOutput, {"vocab_range"}},
                                           OutputCase{kValuesOutput, {"values"}},
                                           OutputCase{kTopLogprobsOutput, {"top_logprobs"}},
                                           OutputCase{kEntropyOutput | kValuesOutput,
                                                      {"entropy", "values"}}),
                         [](const auto& info) {
                           std::string name;
                           for (const std::string& field : info.param.names) {
                             absl::StrAppend(&name, field);
                           }
                           name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
                           return name;
                         });

TEST(UnscoredTest, APathWithoutAFiniteHiddenStateNamesAllThatWasAskedFor) {
  TestServer server;
  server.controls().PoisonToken(kPoison);
  const v1::ScoreResponse response = MustScore(server, EverythingRequest());
  EXPECT_EQ(response.stats().reason(), "non_finite_rerun");
  EXPECT_THAT(response.results(0).candidates(1).unscored_outputs(),
              ElementsAre("vectors", "scores", "probabilities", "token_logprobs", "entropy",
                          "vocab_range", "values", "top_logprobs"));
  EXPECT_THAT(response.results(0).candidates(0).unscored_outputs(), IsEmpty());
}

TEST(UnscoredTest, OutputsThatAreNotAskedForAreNotNamed) {
  TestServer server;
  server.controls().PoisonOutputs(kPoison, kScoresOutput | kEntropyOutput);
  for (const auto& [scores, probabilities, names] :
       std::vector<std::tuple<bool, bool, std::vector<std::string>>>{
           {false, false, {"scores"}},
           {true, false, {"scores"}},
           {false, true, {"probabilities"}},
           {true, true, {"scores", "probabilities"}}}) {
    v1::ScoreRequest request = EverythingRequest();
    request.clear_outputs();
    request.mutable_outputs()->set_scores(scores);
    request.mutable_outputs()->set_probabilities(probabilities);
    const v1::ScoreResponse response = MustScore(server, request);
    EXPECT_THAT(response.results(0).candidates(1).unscored_outputs(), ElementsAreArray(names));
  }
}

TEST(UnscoredTest, TheMetricCountsCandidatesThatLackAnOutput) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  server.controls().PoisonOutputs(kPoison, kEntropyOutput | kValuesOutput);
  MustScore(server, EverythingRequest());
  EXPECT_EQ(MetricValue(Scrape(server.server().metrics_address()), "canopy_unscored_paths_total"),
            1);
}

}  // namespace
}  // namespace canopy::testing
