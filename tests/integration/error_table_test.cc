// Checks every row of the contract's error table that one request can cause: exact code, field,
// text and details, through a real server.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/small_requests.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = grpc::StatusCode;

constexpr char kExplain[] = "/canopy.v1.Scorer/Explain";

struct ErrorCase {
  std::string name;
  std::function<void(v1::ScoreRequest*)> corrupt;  // makes the valid request invalid
  Code code;
  std::string field;  // of google.rpc.BadRequest; '' = no such detail
  std::string text;   // a part of the violation's description; of the message if `field` is empty
};

v1::Candidate* Candidate(v1::ScoreRequest* request, int question, int candidate) {
  return request->mutable_questions(question)->mutable_candidates(candidate);
}

template <typename Message>
void AddUnknownField(Message* message) {
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(77, 1);
}

std::vector<ErrorCase> MalformedCases() {
  return {
      {"no questions", [](auto* r) { r->clear_questions(); }, Code::INVALID_ARGUMENT, "questions",
       "at least one question"},
      {"no candidates", [](auto* r) { r->mutable_questions(1)->clear_candidates(); },
       Code::INVALID_ARGUMENT, "questions[1].candidates", "at least one candidate"},
      {"empty path",
       [](auto* r) {
         r->mutable_questions(1)->clear_prefix();
         Candidate(r, 1, 0)->clear_tokens();
       },
       Code::INVALID_ARGUMENT, "questions[1].candidates[0].tokens", "the path is empty"},
      {"token = vocabulary", [](auto* r) { Candidate(r, 0, 1)->mutable_tokens()->add_ids(1'000); },
       Code::INVALID_ARGUMENT, "questions[0].candidates[1].tokens",
       "token 1000 at index 1 is outside the vocabulary of 1000"},
      {"largest token",
       [](auto* r) { r->mutable_questions(0)->mutable_prefix()->set_ids(0, 0xffffffff); },
       Code::INVALID_ARGUMENT, "questions[0].prefix", "token -1 at index 0"},
      {"negative raw token",
       [](auto* r) {
         Candidate(r, 1, 0)->mutable_tokens()->Clear();
         Candidate(r, 1, 0)->mutable_tokens()->set_raw(std::string(4, '\xff'));
       },
       Code::INVALID_ARGUMENT, "questions[1].candidates[0].tokens", "token -1 at index 0"},
      {"big-endian raw tokens",
       [](auto* r) {
         Candidate(r, 1, 0)->mutable_tokens()->Clear();
         Candidate(r, 1, 0)->mutable_tokens()->set_raw(std::string("\0\0\0\5", 4));
       },
       Code::INVALID_ARGUMENT, "questions[1].candidates[0].tokens", "token 83886080 at index 0"},
      {"path too long",
       [](auto* r) {
         for (int i = 0; i < 2'097; ++i) {
           Candidate(r, 0, 1)->mutable_tokens()->add_ids(1);
         }
       },
       Code::INVALID_ARGUMENT, "questions[0].candidates[1].tokens",
       "2100 tokens exceed max_path_tokens 2048"},
      {"both forms of a prefix",
       [](auto* r) { r->mutable_questions(0)->mutable_prefix()->set_raw(std::string(4, '\1')); },
       Code::INVALID_ARGUMENT, "questions[0].prefix", "ids and raw are both set"},
      {"both forms of tokens",
       [](auto* r) { Candidate(r, 1, 0)->mutable_tokens()->set_raw(std::string(4, '\1')); },
       Code::INVALID_ARGUMENT, "questions[1].candidates[0].tokens", "ids and raw are both set"},
      {"raw of 7 bytes",
       [](auto* r) {
         r->mutable_questions(0)->mutable_prefix()->Clear();
         r->mutable_questions(0)->mutable_prefix()->set_raw(std::string(7, '\0'));
       },
       Code::INVALID_ARGUMENT, "questions[0].prefix.raw", "7 bytes are not a multiple of 4"},
      {"unknown kind",
       [](auto* r) { r->mutable_questions(1)->set_kind(static_cast<v1::QuestionKind>(9)); },
       Code::INVALID_ARGUMENT, "questions[1].kind", "unknown value 9"},
      {"unknown priority", [](auto* r) { r->set_priority(static_cast<v1::Priority>(-1)); },
       Code::INVALID_ARGUMENT, "priority", "unknown value -1"},
  };
}

// Returns the bytes of little-endian int64 values, as `array.astype("<i8").tobytes()` does.
std::string Int64Bytes(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    for (int byte = 0; byte < 8; ++byte) {
      bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * byte));
    }
  }
  return bytes;
}

// Returns a function that replaces a candidate's tokens.
std::function<void(v1::ScoreRequest*)> WithRaw64(const std::string& bytes) {
  return [bytes](v1::ScoreRequest* request) {
    Candidate(request, 0, 1)->mutable_tokens()->Clear();
    Candidate(request, 0, 1)->mutable_tokens()->set_raw64(bytes);
  };
}

std::vector<ErrorCase> Int64Cases() {
  const Code code = Code::INVALID_ARGUMENT;
  const std::string tokens = "questions[0].candidates[1].tokens";
  const auto outside = [](const std::string& token) {
    return absl::StrCat("token ", token, " at index 0 is outside the vocabulary of 1000");
  };
  return {
      {"int64 of 1 byte", WithRaw64("1"), code, tokens + ".raw64",
       "1 bytes are not a multiple of 8"},
      {"int64 of 12 bytes", WithRaw64(std::string(12, '\0')), code, tokens + ".raw64",
       "12 bytes are not a multiple of 8"},
      {"int64 prefix of 4 bytes",
       [](auto* r) {
         r->mutable_questions(1)->mutable_prefix()->Clear();
         r->mutable_questions(1)->mutable_prefix()->set_raw64(std::string(4, '\0'));
       },
       code, "questions[1].prefix.raw64", "4 bytes are not a multiple of 8"},
      {"int64 token = vocabulary", WithRaw64(Int64Bytes({1'000})), code, tokens, outside("1000")},
      {"int64 token = vocabulary, last of three", WithRaw64(Int64Bytes({1, 999, 1'000})), code,
       tokens, "token 1000 at index 2 is outside the vocabulary of 1000"},
      {"negative int64 token", WithRaw64(Int64Bytes({-1})), code, tokens, outside("-1")},
      {"smallest int64 token", WithRaw64(Int64Bytes({INT64_MIN})), code, tokens,
       outside("-9223372036854775808")},
      {"largest int64 token", WithRaw64(Int64Bytes({INT64_MAX})), code, tokens,
       outside("9223372036854775807")},
      // Narrowed to 32 bits, these would be the tokens 0, 5 and -1.
      {"int64 token 2^32", WithRaw64(Int64Bytes({int64_t{1} << 32})), code, tokens,
       outside("4294967296")},
      {"int64 token 2^32 + 5", WithRaw64(Int64Bytes({(int64_t{1} << 32) + 5})), code, tokens,
       outside("4294967301")},
      {"int64 token 2^32 - 1", WithRaw64(Int64Bytes({(int64_t{1} << 32) - 1})), code, tokens,
       outside("4294967295")},
      {"big-endian int64 token", WithRaw64(std::string("\0\0\0\0\0\0\0\5", 8)), code, tokens,
       outside("360287970189639680")},
      {"ids and raw64",
       [](auto* r) { Candidate(r, 1, 0)->mutable_tokens()->set_raw64(Int64Bytes({1})); }, code,
       "questions[1].candidates[0].tokens", "ids and raw64 are both set"},
      {"raw and raw64",
       [](auto* r) {
         WithRaw64(Int64Bytes({1}))(r);
         Candidate(r, 0, 1)->mutable_tokens()->set_raw(std::string(4, '\1'));
       },
       code, tokens, "raw and raw64 are both set"},
      {"ids, raw and raw64",
       [](auto* r) {
         r->mutable_questions(0)->mutable_prefix()->set_raw(std::string(4, '\1'));
         r->mutable_questions(0)->mutable_prefix()->set_raw64(Int64Bytes({1}));
       },
       code, "questions[0].prefix", "ids, raw and raw64 are all set"},
      {"path of int64 tokens too long", WithRaw64(Int64Bytes(std::vector<int64_t>(2'047, 1))), code,
       tokens, "2049 tokens exceed max_path_tokens 2048"},
      {"too many int64 tokens",
       [](auto* r) {
         r->mutable_questions(1)->clear_prefix();
         r->mutable_questions(1)->mutable_prefix()->set_raw64(std::string(24'000, '\0'));
       },
       code, "questions", "3005 tokens exceed max_tokens 3000"},
      {"equal candidates, one of them int64",
       [](auto* r) {
         r->mutable_questions(0)->set_kind(v1::QUESTION_KIND_BOOLEAN);
         WithRaw64(Int64Bytes({3}))(r);
       },
       code, tokens, "equal to those of candidate 0"},
  };
}

std::vector<ErrorCase> KindCases() {
  const Code code = Code::INVALID_ARGUMENT;
  return {
      {"boolean of one candidate",
       [](auto* r) { r->mutable_questions(1)->set_kind(v1::QUESTION_KIND_BOOLEAN); }, code,
       "questions[1].candidates", "1 candidates; a boolean question has exactly 2"},
      {"score of one level",
       [](auto* r) { r->mutable_questions(1)->set_kind(v1::QUESTION_KIND_SCORE); }, code,
       "questions[1].candidates", "1 candidates; a score question has 2 to 10 levels"},
      {"boolean of three candidates",
       [](auto* r) {
         AddQuestion(r, {1}, {{1}, {2}, {3}})->set_kind(v1::QUESTION_KIND_BOOLEAN);
       },
       code, "questions[2].candidates", "3 candidates; a boolean question has exactly 2"},
      {"equal candidates",
       [](auto* r) {
         AddQuestion(r, {1}, {{1}, {2}, {1}})->set_kind(v1::QUESTION_KIND_CHOICE);
       },
       code, "questions[2].candidates[2].tokens", "equal to those of candidate 0"},
      {"equal candidates in two forms",
       [](auto* r) {
         r->mutable_questions(0)->set_kind(v1::QUESTION_KIND_BOOLEAN);
         Candidate(r, 0, 1)->mutable_tokens()->Clear();
         Candidate(r, 0, 1)->mutable_tokens()->set_raw(std::string("\3\0\0\0", 4));
       },
       code, "questions[0].candidates[1].tokens", "equal to those of candidate 0"},
      {"probabilities without a head",
       [](auto* r) {
         r->set_model("vectors");
         r->mutable_outputs()->set_probabilities(true);
       },
       code, "outputs.probabilities", "model vectors has no head of one score; it has: vectors"},
      {"probabilities of several labels",
       [](auto* r) {
         r->set_model("labels");
         r->mutable_outputs()->set_probabilities(true);
       },
       code, "outputs.probabilities", "model labels has no head of one score"},
  };
}

std::vector<ErrorCase> OptionCases() {
  return {
      {"temperature 0", [](auto* r) { r->mutable_outputs()->set_temperature(0); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "0 is not at least 1e-30 and at most 100"},
      {"temperature 1e-38", [](auto* r) { r->mutable_outputs()->set_temperature(1e-38F); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "1e-38 is not at least 1e-30"},
      {"temperature below 1e-30", [](auto* r) { r->mutable_outputs()->set_temperature(9e-31F); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "9e-31 is not at least 1e-30"},
      {"temperature negative", [](auto* r) { r->mutable_outputs()->set_temperature(-1); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "-1 is not"},
      {"temperature above 100", [](auto* r) { r->mutable_outputs()->set_temperature(100.5F); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "100.5 is not"},
      {"temperature NaN", [](auto* r) { r->mutable_outputs()->set_temperature(NAN); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "nan is not"},
      {"temperature infinite", [](auto* r) { r->mutable_outputs()->set_temperature(INFINITY); },
       Code::INVALID_ARGUMENT, "outputs.temperature", "inf is not"},
      {"top_logprobs 129", [](auto* r) { r->mutable_outputs()->set_top_logprobs(129); },
       Code::INVALID_ARGUMENT, "outputs.top_logprobs", "129 exceeds the limit 128"},
      {"unknown vector_dtype",
       [](auto* r) { r->mutable_outputs()->set_vector_dtype(static_cast<v1::DType>(3)); },
       Code::INVALID_ARGUMENT, "outputs.vector_dtype", "unknown value 3"},
      {"unknown scope", [](auto* r) { r->mutable_outputs()->set_scope(static_cast<v1::Scope>(2)); },
       Code::INVALID_ARGUMENT, "outputs.scope", "unknown value 2"},
      {"unknown field in outputs", [](auto* r) { AddUnknownField(r->mutable_outputs()); },
       Code::INVALID_ARGUMENT, "outputs", "unknown field 77"},
      {"unknown backend",
       [](auto* r) { r->mutable_routing()->set_backend(static_cast<v1::Backend>(5)); },
       Code::INVALID_ARGUMENT, "routing.backend", "unknown value 5"},
      {"unknown policy",
       [](auto* r) { r->mutable_routing()->set_policy(static_cast<v1::Policy>(3)); },
       Code::INVALID_ARGUMENT, "routing.policy", "unknown value 3"},
      {"unknown packing",
       [](auto* r) { r->mutable_routing()->set_packing(static_cast<v1::Packing>(2)); },
       Code::INVALID_ARGUMENT, "routing.packing", "unknown value 2"},
      {"unknown field in routing", [](auto* r) { AddUnknownField(r->mutable_routing()); },
       Code::INVALID_ARGUMENT, "routing", "unknown field 77"},
      {"negative mask budget", [](auto* r) { r->mutable_routing()->set_max_mask_bytes(-1); },
       Code::INVALID_ARGUMENT, "routing.max_mask_bytes", "-1 is negative"},
      {"mask budget over the limit",
       [](auto* r) { r->mutable_routing()->set_max_mask_bytes(1'001); }, Code::INVALID_ARGUMENT,
       "routing.max_mask_bytes", "1001 bytes exceed max_mask_bytes 1000"},
      {"largest mask budget",
       [](auto* r) {
         r->mutable_routing()->set_max_mask_bytes(std::numeric_limits<int64_t>::max());
       },
       Code::INVALID_ARGUMENT, "routing.max_mask_bytes", "exceed max_mask_bytes 1000"},
  };
}

std::vector<ErrorCase> LimitCases() {
  return {
      {"questions",
       [](auto* r) {
         for (int i = 0; i < 3; ++i) {
           AddQuestion(r, {1}, {{1}});
         }
       },
       Code::INVALID_ARGUMENT, "questions", "5 questions exceed max_questions 4"},
      {"candidates of one question",
       [](auto* r) { AddQuestion(r, {1}, std::vector<std::vector<uint32_t>>(5, {1})); },
       Code::INVALID_ARGUMENT, "questions[2].candidates", "5 candidates exceed max_candidates 4"},
      {"paths",
       [](auto* r) {
         AddQuestion(r, {1}, std::vector<std::vector<uint32_t>>(4, {1}));
         AddQuestion(r, {1}, {{1}, {1}});
       },
       Code::INVALID_ARGUMENT, "questions", "9 paths exceed max_paths 8"},
      {"tokens", [](auto* r) { AddQuestion(r, std::vector<uint32_t>(2'995, 1), {{1}}); },
       Code::INVALID_ARGUMENT, "questions", "3002 tokens exceed max_tokens 3000"},
      {"tokens in raw form",
       [](auto* r) {
         r->mutable_questions(1)->clear_prefix();
         r->mutable_questions(1)->mutable_prefix()->set_raw(std::string(12'000, '\0'));
       },
       Code::INVALID_ARGUMENT, "questions", "3005 tokens exceed max_tokens 3000"},
  };
}

std::vector<ErrorCase> HeadCases() {
  const Code code = Code::INVALID_ARGUMENT;
  const char* kNoLanguageModel = "model reward has no language-model head; it has: vectors, reward";
  return {
      {"scores",
       [](auto* r) {
         r->set_model("vectors");
         r->mutable_outputs()->set_scores(true);
       },
       code, "outputs.scores", "model vectors has no scoring head; it has: vectors"},
      {"token_logprobs", [](auto* r) { r->mutable_outputs()->set_token_logprobs(true); }, code,
       "outputs.token_logprobs", kNoLanguageModel},
      {"entropy", [](auto* r) { r->mutable_outputs()->set_entropy(true); }, code, "outputs.entropy",
       kNoLanguageModel},
      {"vocab_range", [](auto* r) { r->mutable_outputs()->set_vocab_range(true); }, code,
       "outputs.vocab_range", kNoLanguageModel},
      {"top_logprobs", [](auto* r) { r->mutable_outputs()->set_top_logprobs(128); }, code,
       "outputs.top_logprobs", kNoLanguageModel},
      {"token_ranks", [](auto* r) { r->mutable_outputs()->set_token_ranks(true); }, code,
       "outputs.token_ranks", kNoLanguageModel},
      {"values of a head with three labels",
       [](auto* r) {
         r->set_model("labels");
         r->mutable_outputs()->set_values(true);
       },
       code, "outputs.values",
       "model labels has no head of one label for every token; it has: vectors, reward"},
  };
}

std::vector<ErrorCase> StateCases() {
  return {
      {"unknown model", [](auto* r) { r->set_model("nobody"); }, Code::NOT_FOUND, "",
       "model: \"nobody\" is not loaded; loaded: reward, labels, vectors, path, decision, "
       "language"},
      {"newer version", [](auto* r) { r->set_min_model_version(2); }, Code::FAILED_PRECONDITION, "",
       "min_model_version: 2 of model reward is not loaded; the loaded version is 1"},
      {"largest version", [](auto* r) { r->set_min_model_version(~uint64_t{0}); },
       Code::FAILED_PRECONDITION, "", "min_model_version: 18446744073709551615"},
      {"other vocabulary", [](auto* r) { r->set_vocabulary_hash("1111"); },
       Code::FAILED_PRECONDITION, "", "differs from model reward's, 00ff00ff00ff00ff"},
      {"no vocabulary to compare",
       [](auto* r) {
         r->set_model("vectors");
         r->set_vocabulary_hash("00ff00ff00ff00ff");
       },
       Code::FAILED_PRECONDITION, "", "which has none"},
      {"fused backend", [](auto* r) { r->mutable_routing()->set_backend(v1::BACKEND_FUSED); },
       Code::FAILED_PRECONDITION, "",
       "BACKEND_FUSED on model reward; it has: BACKEND_DENSE, BACKEND_SEGMENTED, BACKEND_PATH"},
      {"measured policy", [](auto* r) { r->mutable_routing()->set_policy(v1::POLICY_MEASURED); },
       Code::FAILED_PRECONDITION, "", "POLICY_MEASURED; it has: POLICY_REFERENCE"},
      {"tree backend on a path model",
       [](auto* r) {
         r->set_model("path");
         r->mutable_routing()->set_backend(v1::BACKEND_DENSE);
       },
       Code::FAILED_PRECONDITION, "", "BACKEND_DENSE on model path; it has: BACKEND_PATH"},
  };
}

void ExpectError(const ErrorCase& error_case, const grpc::Status& status) {
  SCOPED_TRACE(absl::StrCat(error_case.name, ": ", status.error_message()));
  EXPECT_EQ(status.error_code(), error_case.code);
  EXPECT_LE(status.error_message().size(), 1'024U);
  const auto bad_request = FindDetail<google::rpc::BadRequest>(status);
  if (error_case.field.empty()) {
    EXPECT_EQ(bad_request, nullptr);
    EXPECT_THAT(status.error_message(), HasSubstr(error_case.text));
    return;
  }
  ASSERT_NE(bad_request, nullptr);
  ASSERT_EQ(bad_request->field_violations_size(), 1);
  EXPECT_EQ(bad_request->field_violations(0).field(), error_case.field);
  EXPECT_THAT(bad_request->field_violations(0).description(), HasSubstr(error_case.text));
  EXPECT_THAT(status.error_message(),
              HasSubstr(absl::StrCat(error_case.field, ": ",
                                     bad_request->field_violations(0).description())));
}

class ErrorTableTest : public ::testing::Test {
 protected:
  // Runs each case over Score, ScoreStream and Explain, which share their checks.
  void ExpectErrors(const std::vector<ErrorCase>& cases) {
    for (const ErrorCase& error_case : cases) {
      v1::ScoreRequest request = ValidRequest();
      error_case.corrupt(&request);
      v1::ScoreResponse response;
      ExpectError(error_case, server_.Score(request, &response));
      v1::ExplainRequest explain;
      *explain.mutable_request() = request;
      v1::ExplainResponse explained;
      ExpectError(error_case, server_.Explain(explain, &explained));
      request.set_request_id("streamed");
      ExpectError(error_case, SendOnStream(request));
    }
    EXPECT_EQ(server_.controls().forwards(), 0);
  }

  // Returns the error in the answer to `request` on a stream of its own, which must end with OK.
  grpc::Status SendOnStream(const v1::ScoreRequest& request) {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    const auto stream = server_.stub().ScoreStream(&context);
    v1::ScoreResponse response;
    EXPECT_TRUE(stream->Write(request) && stream->WritesDone() && stream->Read(&response));
    EXPECT_EQ(response.request_id(), request.request_id());
    EXPECT_TRUE(Succeeded(stream->Finish()));
    const google::rpc::Status& error = response.error();
    return grpc::Status(static_cast<Code>(error.code()), error.message(),
                        error.SerializeAsString());
  }

  grpc::Status Send(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    std::string response;
    return server_.Call(method, bytes, &response, &context);
  }

  TestServer server_{SmallLimits()};
};

TEST_F(ErrorTableTest, TheBaseRequestIsAccepted) {
  v1::ScoreResponse response;
  EXPECT_TRUE(Succeeded(server_.Score(ValidRequest(), &response)));
}

TEST_F(ErrorTableTest, MalformedRequests) { ExpectErrors(MalformedCases()); }
TEST_F(ErrorTableTest, Int64Tokens) { ExpectErrors(Int64Cases()); }
TEST_F(ErrorTableTest, CandidatesOfAKind) { ExpectErrors(KindCases()); }
TEST_F(ErrorTableTest, WrongOptions) { ExpectErrors(OptionCases()); }
TEST_F(ErrorTableTest, CountsOverALimit) { ExpectErrors(LimitCases()); }
TEST_F(ErrorTableTest, OutputsWithoutAHead) { ExpectErrors(HeadCases()); }
TEST_F(ErrorTableTest, MissingFeaturesOfTheServer) { ExpectErrors(StateCases()); }

TEST_F(ErrorTableTest, LimitsThemselvesAreAllowed) {
  v1::ScoreRequest request;
  AddQuestion(&request, {}, std::vector<std::vector<uint32_t>>(4, {1}));
  for (int i = 0; i < 3; ++i) {
    AddQuestion(&request, std::vector<uint32_t>(i == 0 ? 2'047 : i == 1 ? 943 : 3, 1), {{1}});
  }
  request.mutable_routing()->set_max_mask_bytes(1'000);
  request.mutable_outputs()->set_temperature(100);
  request.set_min_model_version(1);
  request.set_vocabulary_hash("00ff00ff00ff00ff");
  v1::ScoreResponse response;
  const grpc::Status status = server_.Score(request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ErrorTableTest, LegalOdditiesSucceed) {
  v1::ScoreRequest request;
  AddQuestion(&request, {1}, {{}, {}, {2}, {2}})->set_id(std::string("\0\x01 \u00e9", 5));
  AddQuestion(&request, {}, {{0}, {999}});
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(77, "ignored");
  v1::ScoreResponse response;
  const grpc::Status status = server_.Score(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results(0).id(), request.questions(0).id());
  EXPECT_EQ(response.results(0).candidates(0).score(), response.results(0).candidates(1).score());
}

TEST_F(ErrorTableTest, ViolationsComeInRequestOrderAndAtMostSixteen) {
  v1::ScoreRequest request = ValidRequest();
  request.set_priority(static_cast<v1::Priority>(7));
  request.mutable_routing()->set_max_mask_bytes(-5);
  request.mutable_outputs()->set_temperature(-1);
  Candidate(&request, 1, 0)->mutable_tokens()->add_ids(5'000);
  request.mutable_questions(1)->set_kind(static_cast<v1::QuestionKind>(5));
  Candidate(&request, 0, 1)->mutable_tokens()->set_raw("abc");
  v1::ScoreResponse response;
  auto bad_request = FindDetail<google::rpc::BadRequest>(server_.Score(request, &response));
  ASSERT_NE(bad_request, nullptr);
  std::vector<std::string> fields;
  for (const auto& violation : bad_request->field_violations()) {
    fields.push_back(violation.field());
  }
  EXPECT_THAT(fields, ElementsAre("questions[0].candidates[1].tokens",
                                  "questions[1].candidates[0].tokens", "questions[1].kind",
                                  "outputs.temperature", "routing.max_mask_bytes", "priority"));
}

TEST(ManyViolationsTest, SixteenAreReported) {
  TestServer server;
  v1::ScoreRequest request;
  AddQuestion(&request, {}, std::vector<std::vector<uint32_t>>(300, {5'000}));
  v1::ScoreResponse response;
  const grpc::Status status = server.Score(request, &response);
  const auto bad_request = FindDetail<google::rpc::BadRequest>(status);
  ASSERT_NE(bad_request, nullptr);
  ASSERT_EQ(bad_request->field_violations_size(), 16);
  EXPECT_EQ(bad_request->field_violations(15).field(), "questions[0].candidates[15].tokens");
  EXPECT_LE(status.error_message().size(), 1'024U);
}

TEST_F(ErrorTableTest, UnknownModelsAreNamedInResourceInfo) {
  v1::ScoreRequest request = ValidRequest();
  request.set_model(absl::StrCat("\n\u00e9", std::string(5'000, 'x')));
  v1::ScoreResponse response;
  const grpc::Status status = server_.Score(request, &response);
  EXPECT_EQ(status.error_code(), Code::NOT_FOUND);
  const auto resource = FindDetail<google::rpc::ResourceInfo>(status);
  ASSERT_NE(resource, nullptr);
  EXPECT_EQ(resource->resource_type(), "canopy.v1.Model");
  EXPECT_TRUE(absl::StartsWith(resource->resource_name(), "\\n\\xc3\\xa9xxx"));
  EXPECT_LT(resource->resource_name().size(), 200U);

  grpc::ClientContext context;
  v1::GetModelRequest get;
  get.set_name("nobody");
  v1::Model model;
  EXPECT_EQ(server_.stub().GetModel(&context, get, &model).error_code(), Code::NOT_FOUND);
}

TEST_F(ErrorTableTest, ExplainRefusesWhatItCannotBound) {
  v1::ExplainRequest request;
  *request.mutable_request() = ValidRequest();
  request.set_max_svg_segments(100'001);
  v1::ExplainResponse response;
  const grpc::Status status = server_.Explain(request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(FindDetail<google::rpc::BadRequest>(status)->field_violations(0).field(),
            "max_svg_segments");
  const std::string once = request.SerializeAsString();
  request.clear_max_svg_segments();
  EXPECT_EQ(Send(kExplain, request.SerializeAsString() + once).error_code(),
            Code::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace canopy::testing
