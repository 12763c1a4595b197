#include "client/load/traffic/answer_compare.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "client/testing/samples.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using Change = std::function<void(v1::ScoreResponse*)>;

std::string Found(const Change& change, double tolerance = 1e-4) {
  v1::ScoreResponse got = SampleResponse();
  change(&got);
  const absl::optional<Difference> difference = FindDifference(SampleResponse(), got, tolerance);
  return difference.has_value() ? ToString(*difference) : "";
}

v1::CandidateResult* Candidate(v1::ScoreResponse* response, int question, int candidate) {
  return response->mutable_results(question)->mutable_candidates(candidate);
}

TEST(FindDifferenceTest, EqualAnswersAndOtherRoutesFit) {
  EXPECT_EQ(Found([](auto*) {}), "");
  EXPECT_EQ(Found([](auto* r) { r->mutable_stats()->set_backend(v1::BACKEND_PATH); }), "");
  EXPECT_FALSE(FindDifference(UnscoredResponse(), UnscoredResponse(), 0).has_value());
}

TEST(FindDifferenceTest, EveryNumberCounts) {
  const struct {
    Change change;
    std::string found;
  } cases[] = {
      {[](auto* r) { Candidate(r, 0, 1)->set_score(2.25); },
       "questions[0].candidates[1].score: expected 2.5, got 2.25"},
      {[](auto* r) { Candidate(r, 1, 0)->clear_score(); },
       "questions[1].candidates[0].score: expected 1, got none"},
      {[](auto* r) { Candidate(r, 0, 2)->set_sum_logprob(-1); },
       "questions[0].candidates[2].sum_logprob: expected none, got -1"},
      {[](auto* r) { Candidate(r, 0, 0)->add_label_scores(1); },
       "questions[0].candidates[0].label_scores: expected 0 numbers, got 1"},
      {[](auto* r) { Candidate(r, 0, 0)->set_token_logprobs(1, -0.75); },
       "questions[0].candidates[0].token_logprobs[1]: expected -0.5, got -0.75"},
      {[](auto* r) { Candidate(r, 1, 0)->set_entropy(0, 3); },
       "questions[1].candidates[0].entropy[0]: expected 1, got 3"},
      {[](auto* r) { Candidate(r, 1, 1)->set_min_logit(0, 0); },
       "questions[1].candidates[1].min_logit[0]: expected -1, got 0"},
      {[](auto* r) { Candidate(r, 1, 1)->set_max_logit(0, 0); },
       "questions[1].candidates[1].max_logit[0]: expected 1, got 0"},
      {[](auto* r) { Candidate(r, 1, 1)->set_values(1, 0.5); },
       "questions[1].candidates[1].values[1]: expected 0.9, got 0.5"},
      {[](auto* r) { Candidate(r, 1, 1)->set_unscored_reason("non_finite"); },
       "questions[1].candidates[1].unscored_reason: expected '', got 'non_finite'"},
      {[](auto* r) { Candidate(r, 0, 0)->set_score(std::nanf("")); },
       "questions[0].candidates[0].score: expected 0.5, got nan"},
      // The last element of the last row changes from 0.5 to 1.
      {[](auto* r) { r->mutable_vectors()->mutable_data()->replace(36, 4, "\0\0\x80\x3F", 4); },
       "questions[1].candidates[1].vector[1]: expected 0.5, got 1"},
      {[](auto* r) { r->mutable_results(0)->mutable_candidates()->SwapElements(0, 1); },
       "questions[0].candidates[0].id: expected 'red', got 'blue'"},
      {[](auto* r) { *r->mutable_results(1)->add_candidates() = r->results(1).candidates(1); },
       "questions[1].candidates: expected 2, got 3"},
      {[](auto* r) { r->mutable_results()->RemoveLast(); }, "results: expected 2, got 1"},
      {[](auto* r) { r->mutable_results()->SwapElements(0, 1); },
       "questions[0].id: expected color, got odd"},
      {[](auto* r) { Candidate(r, 0, 2)->set_tokens(3); },
       "questions[0].candidates[2].tokens: expected 2, got 3"},
      {[](auto* r) { r->mutable_vectors()->mutable_data()->resize(36); },
       "vectors.data bytes: expected 40, got 36"},
      {[](auto* r) { r->mutable_vectors()->set_dtype(v1::DTYPE_FLOAT16); },
       "vectors.dtype: expected 0, got 2"},
  };
  for (const auto& [change, found] : cases) {
    EXPECT_EQ(Found(change), found);
  }
}

// The largest score of the sample is 2.5.
TEST(FindDifferenceTest, ToleranceIsOfTheLargestNumberOfTheOutput) {
  const auto score = [](float value) {
    return [value](v1::ScoreResponse* r) { Candidate(r, 0, 0)->set_score(value); };
  };
  EXPECT_EQ(Found(score(0.5F + 0.024F), 0.01), "");
  EXPECT_EQ(Found(score(0.5F + 0.026F), 0.01),
            "questions[0].candidates[0].score: expected 0.5, got 0.526");
  v1::ScoreResponse expected = SampleResponse();
  Candidate(&expected, 0, 0)->set_score(-200);
  v1::ScoreResponse got = expected;
  Candidate(&got, 1, 1)->set_score(-0.1F + 1.9F);
  EXPECT_FALSE(FindDifference(expected, got, 0.01).has_value());
  Candidate(&got, 1, 1)->set_score(-0.1F + 2.1F);
  EXPECT_TRUE(FindDifference(expected, got, 0.01).has_value());
}

TEST(FindDifferenceTest, RanksFitWithinAShareOfThemselves) {
  const auto found = [](uint32_t from, uint32_t to, double tolerance) {
    v1::ScoreResponse expected = SampleResponse();
    Candidate(&expected, 0, 0)->add_token_ranks(from);
    v1::ScoreResponse got = SampleResponse();
    Candidate(&got, 0, 0)->add_token_ranks(to);
    const auto difference = FindDifference(expected, got, tolerance);
    return difference.has_value() ? ToString(*difference) : "";
  };
  EXPECT_EQ(found(7, 7, 0), "");
  EXPECT_EQ(found(7, 8, 0), "questions[0].candidates[0].token_ranks[0]: expected 7, got 8");
  // Neighbouring ranks may swap.
  EXPECT_EQ(found(7, 8, 1e-4), "");
  EXPECT_NE(found(7, 9, 1e-4), "");
  EXPECT_EQ(found(9'900, 10'000, 1e-4), "");
  EXPECT_NE(found(9'800, 10'000, 1e-4), "");
  EXPECT_NE(found(1, 4'000'000'000, 1e-4), "");
  EXPECT_EQ(Found([](auto* r) { Candidate(r, 0, 0)->add_token_ranks(1); }),
            "questions[0].candidates[0].token_ranks: expected 0 numbers, got 1");
}

TEST(FindDifferenceTest, ToleranceIsAbsoluteBelowOne) {
  v1::ScoreResponse expected = SampleResponse();
  for (v1::QuestionResult& question : *expected.mutable_results()) {
    for (v1::CandidateResult& candidate : *question.mutable_candidates()) {
      candidate.set_score(0.001F);
    }
  }
  v1::ScoreResponse got = expected;
  Candidate(&got, 0, 0)->set_score(0.010F);
  EXPECT_FALSE(FindDifference(expected, got, 0.01).has_value());
  Candidate(&got, 0, 0)->set_score(0.012F);
  EXPECT_TRUE(FindDifference(expected, got, 0.01).has_value());
}

}  // namespace
}  // namespace canopy::client
