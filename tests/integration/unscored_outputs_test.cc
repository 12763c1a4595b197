// An output that is not finite is missing from its candidate, and everything else is unchanged.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer_check.h"
#include "core/tree/outputs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr uint32_t kPoison = 500;
constexpr int64_t kHidden = 8;

// Sets the field of an output; `count` is its value if the field is a number.
void AskFor(const OutputSpec& spec, uint32_t count, v1::Outputs* outputs) {
  const auto* field = v1::Outputs::descriptor()->FindFieldByName(std::string(spec.name));
  if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
    outputs->GetReflection()->SetBool(outputs, field, true);
  } else {
    outputs->GetReflection()->SetUInt32(outputs, field, count);
  }
}

// Returns two questions with all outputs. The second candidate of the first contains the token
// kPoison.
v1::ScoreRequest EverythingRequest() {
  v1::ScoreRequest request;
  request.set_model("language");
  AddQuestion(&request, {1, 2}, {{3, 4}, {kPoison, 4}, {5}});
  AddQuestion(&request, {7}, {{8, 9}, {9, 8}});
  for (const OutputSpec& spec : kOutputs) {
    AskFor(spec, 2, request.mutable_outputs());
  }
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

// Returns the fields of CandidateResult that contain an output. Most outputs have one field, with
// the name of the output.
std::vector<std::string> FieldsOf(const std::string& output) {
  if (output == "vectors" || output == "probabilities") {
    return {};  // vectors are elsewhere; without a score the whole question has no probabilities
  }
  return output == "scores"           ? std::vector<std::string>{"score"}
         : output == "token_logprobs" ? std::vector<std::string>{"token_logprobs", "sum_logprob"}
         : output == "vocab_range"    ? std::vector<std::string>{"min_logit", "max_logit"}
                                      : std::vector<std::string>{output};
}

// Returns `right` without the outputs of `names`.
v1::CandidateResult Without(v1::CandidateResult right, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const std::string& field : FieldsOf(name)) {
      const auto* descriptor = v1::CandidateResult::descriptor()->FindFieldByName(field);
      EXPECT_NE(descriptor, nullptr) << field;
      right.GetReflection()->ClearField(&right, descriptor);
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

TEST_P(UnscoredOutputTest, OnlyTheUnscoredOutputIsMissing) {
  TestServer server;
  const v1::ScoreRequest request = EverythingRequest();
  v1::ScoreResponse right = MustScore(server, request);
  server.controls().PoisonOutputs(kPoison, GetParam().output);
  const v1::ScoreResponse response = MustScore(server, request);

  // Each of the two requests ran once: the server does not repeat a forward for an output that
  // would overflow again.
  EXPECT_EQ(server.controls().forwards(), 2);
  EXPECT_EQ(response.stats().reason(), right.stats().reason());
  EXPECT_EQ(response.stats().computed_tokens(), right.stats().computed_tokens());
  if (GetParam().output == BitOf(Output::kScores)) {
    // The probabilities of a question with an unknown score are unknown.
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
    const bool lacks = row == 1 && GetParam().output == BitOf(Output::kVectors);
    EXPECT_EQ(Row(response, row) == Row(right, row), !lacks) << row;
  }
}

// Returns every computed output, and two outputs at once.
std::vector<OutputCase> Cases() {
  std::vector<OutputCase> cases = {
      {BitOf(Output::kEntropy) | BitOf(Output::kValues), {"entropy", "values"}}};
  for (const OutputSpec& computed : kOutputs) {
    OutputCase& each = cases.emplace_back(OutputCase{BitOf(computed.output), {}});
    for (const OutputSpec& spec : kOutputs) {
      if (spec.computed == computed.output) {
        each.names.emplace_back(spec.name);
      }
    }
    if (each.names.empty()) {
      cases.pop_back();
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(EachOutput, UnscoredOutputTest, ::testing::ValuesIn(Cases()),
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
  std::vector<std::string> names;
  names.reserve(kOutputs.size());
  for (const OutputSpec& spec : kOutputs) {
    names.emplace_back(spec.name);
  }
  EXPECT_THAT(response.results(0).candidates(1).unscored_outputs(), ElementsAreArray(names));
  EXPECT_THAT(response.results(0).candidates(0).unscored_outputs(), IsEmpty());
}

TEST(UnscoredTest, OutputsThatAreNotAskedForAreNotNamed) {
  TestServer server;
  server.controls().PoisonOutputs(kPoison, BitOf(Output::kScores) | BitOf(Output::kEntropy));
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
  server.controls().PoisonOutputs(kPoison, BitOf(Output::kEntropy) | BitOf(Output::kValues));
  MustScore(server, EverythingRequest());
  EXPECT_EQ(MetricValue(Scrape(server.server().metrics_address()), "canopy_unscored_paths_total"),
            1);
}

}  // namespace
}  // namespace canopy::testing
