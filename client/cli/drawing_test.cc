// Compares tables and trees with golden text.
#include <string>

#include "client/cli/model_table.h"
#include "client/cli/score_table.h"
#include "client/cli/stats_lines.h"
#include "client/cli/tree_drawing.h"
#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Palette kPlain(false);

TEST(ScoreTablesTest, ShowsEveryOutput) {
  EXPECT_EQ(ScoreTables(SampleRequest(), SampleResponse(), kPlain),
            R"(question color (choice): blue (probability 0.8100, margin 0.7000)
   rank  candidate  tokens    score  probability  distribution      logprob  mean entropy     logit range  last value                  vector
*     1  blue            3   2.5000       0.8100  ################  -0.2500        2.0000  -3.0000 3.0000      0.7000  float32[2] norm 2.0000
      2  red             4   0.5000       0.1100  ##                -1.5000        1.5000  -4.0000 4.0000      0.2000  float32[2] norm 1.0000
      3  #2              2  -0.1250       0.0800  ##                                                                   float32[2] norm 1.0000
`-- 0..1  [5 6]  <- #2
    |-- 2..3  [7 8]  <- red
    |       token              7          8
    |       logprob      -1.0000    -0.5000
    |       entropy       2.0000     1.0000
    |       min logit    -3.0000    -4.0000
    |       max logit     3.0000     4.0000
    |       value         0.1000     0.2000
    |       top 1      7 -1.0000  8 -0.5000
    |       top 2      9 -1.5000
    `-- 2  [9]  <- blue
            token              9
            logprob      -0.2500
            entropy       2.0000
            min logit    -3.0000
            max logit     3.0000
            value         0.7000
            top 1      9 -0.2500
            top 2      7 -1.0000

question odd (boolean): true (probability of true 0.7500)
   rank  candidate  tokens    score  probability  distribution     logprob  mean entropy     logit range  last value                  vector
*     1  yes             3   1.0000       0.7500  ###############  -3.0000        1.5000  -2.0000 2.0000      0.1000  float32[2] norm 5.0000
      2  no              2  -0.1000       0.2500  #####            -4.0000        1.0000  -1.0000 1.0000      0.9000  float32[2] norm 0.7071
`-- 0  [1]
    |   token       1
    |   value  0.3000
    |-- 1..2  [2 3]  <- yes
    |       token              2          3
    |       logprob      -1.0000    -2.0000
    |       entropy       1.0000     2.0000
    |       min logit    -1.0000    -2.0000
    |       max logit     1.0000     2.0000
    |       value         0.2000     0.1000
    |       top 1      2 -1.0000  3 -2.0000
    `-- 1  [4]  <- no
            token              4
            logprob      -4.0000
            entropy       1.0000
            min logit    -1.0000
            max logit     1.0000
            value         0.9000
            top 1      2 -1.0000
            top 2      4 -4.0000

model   demo  version 3  fingerprint 9f86d081884c7d65
route   backend segmented  policy reference  reason -  layout flat  parts 1
tokens  path 20  input 14  unique 9  computed 7  saved 50.0%
ms      decode 0.100  queue 0.200  plan 0.300  device 4.000  encode_queue 0.020  encode 0.050  total 4.670
)");
}

// Returns the same answer with scores only.
v1::ScoreResponse OnlyScores(v1::ScoreResponse response) {
  response.clear_vectors();
  for (v1::QuestionResult& question : *response.mutable_results()) {
    question.clear_answer();
    for (v1::CandidateResult& candidate : *question.mutable_candidates()) {
      v1::CandidateResult only;
      only.set_id(candidate.id());
      only.set_tokens(candidate.tokens());
      only.set_unscored_reason(candidate.unscored_reason());
      if (candidate.has_score()) {
        only.set_score(candidate.score());
      }
      candidate = only;
    }
  }
  return response;
}

std::string FirstTable(const std::string& text) { return text.substr(0, text.find("\n\n") + 1); }

TEST(ScoreTablesTest, UnscoredCandidatesComeLast) {
  EXPECT_EQ(FirstTable(ScoreTables(SampleRequest(), OnlyScores(UnscoredResponse()), kPlain)),
            R"(question color (choice)
   rank  candidate                   tokens    score
*     1  blue                             3   2.5000
      2  #2                               2  -0.1250
      -  red (unscored: non_finite)       4        -
)");
}

TEST(ScoreTablesTest, ACandidateWithoutOneOutputNamesItAndShowsTheOthers) {
  v1::ScoreResponse response = OnlyScores(SampleResponse());
  for (v1::CandidateResult& candidate : *response.mutable_results(0)->mutable_candidates()) {
    candidate.set_sum_logprob(-3);
  }
  v1::CandidateResult* blue = response.mutable_results(0)->mutable_candidates(1);
  blue->set_unscored_reason("non_finite");
  blue->add_unscored_outputs("token_logprobs");
  blue->clear_sum_logprob();
  // A large log-probability is not ranked among scores.
  v1::CandidateResult* red = response.mutable_results(0)->mutable_candidates(0);
  red->set_unscored_reason("non_finite");
  red->add_unscored_outputs("scores");
  red->clear_score();
  red->set_sum_logprob(99);
  EXPECT_EQ(FirstTable(ScoreTables(SampleRequest(), response, kPlain)),
            R"(question color (choice)
   rank  candidate                             tokens    score  logprob
*     1  blue (no token_logprobs: non_finite)       3   2.5000        -
      2  #2                                         2  -0.1250  -3.0000
      -  red (no scores: non_finite)                4        -  99.0000
)");
}

TEST(ScoreTablesTest, TiesStayInRequestOrderAndIdsAreEscaped) {
  v1::ScoreResponse response = OnlyScores(SampleResponse());
  for (v1::CandidateResult& candidate : *response.mutable_results(0)->mutable_candidates()) {
    candidate.set_score(1);
  }
  response.mutable_results(0)->set_id("\x1b[2J");
  response.mutable_results(0)->mutable_candidates(1)->set_id("a\nb");
  EXPECT_EQ(FirstTable(ScoreTables(SampleRequest(), response, kPlain)),
            R"(question \x1b[2J (choice)
   rank  candidate  tokens   score
*     1  red             4  1.0000
      2  a\x0ab          3  1.0000
      3  #2              2  1.0000
)");
}

TEST(ScoreTablesTest, LevelsStayInOrderAndBarsAreBounded) {
  v1::ScoreRequest request;
  request.add_questions()->set_kind(v1::QUESTION_KIND_SCORE);
  v1::ScoreResponse response;
  v1::QuestionResult* question = response.add_results();
  question->mutable_score()->set_level(1);
  question->mutable_score()->set_expected(0.9F);
  for (const float probability : {0.3F, 0.5F, 0.2F}) {
    v1::CandidateResult* candidate = question->add_candidates();
    candidate->set_tokens(2);
    candidate->set_probability(probability);
  }
  EXPECT_EQ(FirstTable(ScoreTables(request, response, kPlain)),
            R"(question #0 (score): level 1 (expected 0.9000)
   rank  candidate  tokens  probability  distribution
      2  #0              2       0.3000  ######
*     1  #1              2       0.5000  ##########
      3  #2              2       0.2000  ####
)");
  for (const float hostile : {-1e30F, 1e30F}) {
    question->mutable_candidates(0)->set_probability(hostile);
    EXPECT_LT(ScoreTables(request, response, kPlain).size(), 2'000U);
  }
}

TEST(ScoreTablesTest, LevelsLabelsAndVectorsAloneHaveNoWinner) {
  v1::ScoreRequest request;
  request.add_questions();
  v1::ScoreResponse response;
  v1::QuestionResult* question = response.add_results();
  question->mutable_score()->set_level(1);
  question->mutable_score()->set_expected(0.75);
  v1::CandidateResult* candidate = question->add_candidates();
  candidate->set_tokens(2);
  candidate->add_label_scores(0.25);
  candidate->add_label_scores(-1);
  EXPECT_EQ(FirstTable(ScoreTables(request, response, kPlain)),
            R"(question #0 (plain): level 1 (expected 0.7500)
   rank  candidate  tokens          labels
      -  #0              2  0.2500 -1.0000
)");
}

// Under scope path, a shared prefix is shown once, even if several candidates have it in their
// lists.
TEST(ScoreTablesTest, LongRunsAndListsAreCutAndCounted) {
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  for (int token = 0; token < 70; ++token) {
    question->mutable_prefix()->add_ids(token);
  }
  v1::ScoreResponse response;
  v1::QuestionResult* result = response.add_results();
  for (int c = 0; c < 2; ++c) {
    question->add_candidates()->mutable_tokens()->add_ids(100 + c);
    v1::CandidateResult* candidate = result->add_candidates();
    candidate->set_tokens(71);
    candidate->set_first_scored_token(1);
    for (int token = 1; token <= 70; ++token) {
      candidate->add_token_logprobs(-0.5F * static_cast<float>(token));
      v1::TopLogprobs* top = candidate->add_top_logprobs();
      for (int rank = 0; rank < 7; ++rank) {
        top->add_ids(rank);
        top->add_logprobs(-1);
      }
    }
  }
  const std::string text = ScoreTables(request, response, kPlain);
  EXPECT_THAT(text, HasSubstr(R"(
    |   token           57         58         59         60         61         62         63         64
    |   logprob   -28.5000   -29.0000   -29.5000   -30.0000   -30.5000   -31.0000   -31.5000   -32.0000
    |   top 1    0 -1.0000 )"));
  EXPECT_THAT(text, HasSubstr("    |   and 5 more tokens (--format=json)\n"));
  EXPECT_THAT(text, HasSubstr("    |   and 2 more top tokens (--format=json)\n"));
  EXPECT_THAT(text, Not(HasSubstr("-32.5000")));
  // Each candidate's own token is shown, and the prefix once.
  for (const char* once : {"token          100\n", "token          101\n", " -0.5000  "}) {
    EXPECT_EQ(text.find(once), text.rfind(once)) << once;
    EXPECT_THAT(text, HasSubstr(once));
  }
}

TEST(ScoreTablesTest, ShowsRanksUnderTheirTokensAndTheirMean) {
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  question->mutable_prefix()->add_ids(5);
  v1::ScoreResponse response;
  v1::QuestionResult* result = response.add_results();
  for (const uint32_t token : {7, 8}) {
    question->add_candidates()->mutable_tokens()->add_ids(token);
    v1::CandidateResult* candidate = result->add_candidates();
    candidate->set_tokens(2);
    candidate->set_first_scored_token(1);
    candidate->add_token_ranks(token);
  }
  const std::string text = ScoreTables(request, response, kPlain);
  EXPECT_THAT(text, HasSubstr("  mean rank\n"));
  EXPECT_THAT(text, HasSubstr("     7.0000\n"));
  EXPECT_THAT(text, HasSubstr("token  7\n"));
  EXPECT_THAT(text, HasSubstr("rank   7\n"));
}

TEST(ScoreTablesTest, ColoursTheWinner) {
  EXPECT_THAT(ScoreTables(SampleRequest(), SampleResponse(), Palette(true)),
              HasSubstr("\x1b[1;32m*     1  blue "));
  EXPECT_THAT(ScoreTables(SampleRequest(), SampleResponse(), kPlain), Not(HasSubstr("\x1b")));
}

TEST(StatsLinesTest, SavingsAreOneLessComputedByInput) {
  v1::Stats stats;
  stats.set_input_tokens(1000);
  stats.set_computed_tokens(1024);
  EXPECT_THAT(StatsLines(stats, kPlain), HasSubstr("saved -2.4%"));
  stats.set_computed_tokens(85);
  EXPECT_THAT(StatsLines(stats, kPlain), HasSubstr("saved 91.5%"));
  stats.set_input_tokens(0);
  EXPECT_THAT(StatsLines(stats, kPlain), HasSubstr("saved -\n"));
}

TEST(DrawTreesTest, DrawsRunsBranchesAndEndpoints) {
  EXPECT_EQ(DrawTrees(SampleRequest(), SampleExplanation(), kPlain),
            R"(question color: 3 candidates, 5 tokens instead of 9
`-- 0..1  [5 6]  <- #2
    |-- 2..3  [7 8]  <- red
    `-- 2  [9]  <- blue

question odd: 2 candidates, 4 tokens instead of 5
`-- 0  [1]
    |-- 1..2  [2 3]  <- yes
    `-- 1  [4]  <- no

route   backend path  policy reference  reason small_batch  layout flat  parts 0
tokens  path 20  input 14  unique 9  computed 14  saved 0.0%
ms      decode 0.000  queue 0.000  plan 0.500  device 0.000  encode_queue 0.000  encode 0.000  total 0.500
predict path 1.500 ms  dense 2.250 ms
planned outputs scores token_logprobs  rows: 5 endpoints, 6 distributions, 0 values  answer 24 bytes
)");
}

TEST(DrawTreesTest, BranchLinesAndCutRuns) {
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  v1::ExplainResponse response;
  v1::QuestionTree* tree = response.add_questions();
  const auto add_node = [tree](int parent, uint64_t start, uint32_t num_tokens) {
    v1::TreeNode* node = tree->add_nodes();
    node->set_parent(parent);
    node->set_start_depth(start);
    for (uint32_t token = 0; token < num_tokens; ++token) {
      node->add_tokens(token);
    }
    return node;
  };
  add_node(-1, 0, 8);
  add_node(0, 8, 9);
  v1::TreeNode* crowded = add_node(1, 17, 1);
  for (int i = 0; i < 10; ++i) {
    question->add_candidates();
    crowded->add_candidates(i);
  }
  question->add_candidates()->set_id("\x1b]0;title\x07");
  add_node(0, 8, 1)->add_candidates(10);
  add_node(-1, 0, 1)->add_candidates(11);
  question->add_candidates();
  EXPECT_EQ(FirstTable(DrawTrees(request, response, kPlain)),
            R"(question #0: 12 candidates, 20 tokens instead of 0
|-- 0..7  [0 1 2 3 4 5 6 7]
|   |-- 8..16  [0 1 2 3 4 5 6 ... 8] 9 tokens
|   |   `-- 17  [0]  <- #0, #1, #2, #3, #4, #5, #6, #7 and 2 more
|   `-- 8  [0]  <- \x1b]0;title\x07
`-- 0  [0]  <- #11
)");
}

TEST(ModelTablesTest, ShowsEveryProperty) {
  v1::ListModelsResponse response;
  *response.add_models() = SampleModel();
  v1::Model* other = response.add_models();
  other->set_support("path");
  other->set_support_reason("sliding window");
  other->set_pooling("mean");
  other->set_policy_reason("--policy names it");
  const std::string text = ModelTables(response, kPlain);
  EXPECT_EQ(FirstTable(text), R"(model                demo
version              3
fingerprint          9f86d081884c7d65
architecture         Qwen3ForCausalLM
parameters           1234567
hidden_size          64
vocab_size           259
max_path_tokens      2048
num_labels           1
heads                vectors reward
dtype                float32
device               cpu
support              tree
default_policy       reference
vocabulary_hash      -
token_forms          ids raw raw64
pooling              last normalized (here by outputs.normalize alone)
pad_token            258 (a path that ends in it is scored at that token)
build                0.1
limit max_paths      65536
limit max_questions  4096
)");
  EXPECT_THAT(text, HasSubstr("\n\nmodel            #1\n"));
  EXPECT_THAT(text, HasSubstr("support          path (sliding window)\n"));
  EXPECT_THAT(text, HasSubstr("pad_token        -\n"));
  EXPECT_THAT(text, HasSubstr("token_forms      ids raw\n")) << "of a server that does not say";
  EXPECT_THAT(text, HasSubstr("pooling          mean (vectors here are the last token's)\n"));
  EXPECT_THAT(text, HasSubstr("default_policy   default (--policy names it)\n"));
}

}  // namespace
}  // namespace canopy::client
