// Bytes and methods that are not valid requests, sent as a client without Canopy's stubs would send
// them.
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/small_requests.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using Code = grpc::StatusCode;

constexpr char kScore[] = "/canopy.v1.Scorer/Score";
constexpr char kExplain[] = "/canopy.v1.Scorer/Explain";

class RefusedBytesTest : public ::testing::Test {
 protected:
  grpc::Status Send(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    std::string response;
    return server_.Call(method, bytes, &response, &context);
  }

  TestServer server_{SmallLimits()};
};

TEST_F(RefusedBytesTest, BytesThatAreNotARequestNameTheField) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x0a", "ScoreRequest"},            // truncated
      {"\xff\xff\xff", "ScoreRequest"},    // not a tag
      {"\x0a\x02\xc3\x28", "request_id"},  // invalid UTF-8
      // the prefix exceeds its question
      {std::string("\x1a\x00\x1a\x02\x12\x05", 6), "questions[1]"},
      {"\x22\x01\x08", "outputs"},  // a truncated bool
      {"\x2a\x01\x0b", "routing"},  // a group without an end
      {std::string(101, '\x7b') + std::string(101, '\x7c'), "ScoreRequest"},
      {"GET / HTTP/1.1\r\n\r\n", "ScoreRequest"},
  };
  for (const auto& [bytes, field] : cases) {
    SCOPED_TRACE(::testing::PrintToString(bytes));
    const grpc::Status status = Send(kScore, bytes);
    EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT) << status.error_message();
    const auto bad_request = FindDetail<google::rpc::BadRequest>(status);
    ASSERT_NE(bad_request, nullptr);
    EXPECT_EQ(bad_request->field_violations(0).field(), field);
  }
  EXPECT_EQ(Send(kExplain, "\x0a\x05").error_code(), Code::INVALID_ARGUMENT);
  for (const char* name : {"\x0a\x05", "\x0a\x01\xff"}) {
    EXPECT_EQ(Send("/canopy.v1.Scorer/GetModel", name).error_code(), Code::INVALID_ARGUMENT);
  }
}

TEST_F(RefusedBytesTest, OversizeIsRefusedByGrpcWithoutRetryInfo) {
  v1::ScoreRequest request = ValidRequest();
  request.set_request_id(std::string(100'001, 'x'));
  v1::ScoreResponse response;
  const grpc::Status status = server_.Score(request, &response);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(FindDetail<google::rpc::RetryInfo>(status), nullptr);
}

TEST_F(RefusedBytesTest, CompressedRequestsAreRefused) {
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  std::string response;
  v1::ScoreRequest request = ValidRequest();
  // The id is compressible, so that gRPC compresses it.
  request.set_request_id(std::string(50'000, 'x'));
  EXPECT_EQ(server_.Call(kScore, request.SerializeAsString(), &response, &context).error_code(),
            Code::UNIMPLEMENTED);
}

// Any bytes are answered, or refused with one of the contract's codes.
TEST_F(RefusedBytesTest, DamagedRequestsAreNeverInternalErrors) {
  constexpr uint32_t kSeed = 41;
  std::mt19937 random(kSeed);
  v1::ScoreRequest valid = ValidRequest();
  v1::TokenIds* tokens = valid.mutable_questions(0)->mutable_candidates(1)->mutable_tokens();
  tokens->Clear();
  // 4 and 5 as little-endian int64.
  tokens->set_raw64(std::string("\4\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 16));
  valid.mutable_outputs()->set_vectors(true);
  valid.mutable_routing()->set_backend(v1::BACKEND_DENSE);
  std::map<Code, int> codes;
  for (int round = 0; round < 2'000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    std::string bytes = valid.SerializeAsString();
    for (uint32_t i = 0; i <= random() % 4; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const Code code = Send(round % 2 == 0 ? kScore : kExplain, bytes).error_code();
    EXPECT_TRUE(code == Code::OK || code == Code::INVALID_ARGUMENT || code == Code::NOT_FOUND ||
                code == Code::UNIMPLEMENTED || code == Code::FAILED_PRECONDITION)
        << code;
    ++codes[code];
  }
  EXPECT_GT(codes[Code::OK], 10);
  EXPECT_GT(codes[Code::INVALID_ARGUMENT], 500);
}

TEST_F(RefusedBytesTest, UnknownMethodsAreUnimplemented) {
  EXPECT_EQ(Send("/canopy.v1.Admin/LoadWeights", "").error_code(), Code::UNIMPLEMENTED);
  EXPECT_EQ(Send("/canopy.v1.Scorer/Nothing", "").error_code(), Code::UNIMPLEMENTED);
}

}  // namespace
}  // namespace canopy::testing
