#include "server/telemetry/request_log.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_details.h"
#include "canopy/v1/scorer.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Line(const RequestRecord& record, const absl::Status& status) {
  return FormatLogLine(LogFormat::kText, "INFO", "request",
                       RequestFields(record, ToWireError(status), record.request_id));
}

TEST(RequestLogTest, ALineHasSenderOutcomeAndTimes) {
  ScoreObservation scored;
  ModelInfo model;
  model.name = "demo";
  model.version = 3;
  scored.model = std::make_shared<const ModelInfo>(model);
  scored.route = {Backend::kDense, Layout::kPadded, Reason::kNone, Policy::kReference};
  scored.questions = 2;
  scored.paths = 7;
  scored.counts.input_tokens = 40;
  scored.counts.unique_tokens = 30;
  scored.computed_tokens = 32;
  scored.parts = 1;
  scored.batch_requests = 1;
  scored.decode_ms = 0.5;
  scored.stages = {1.5, 0.25, 20};
  scored.encode_queue_ms = 0.0625;
  scored.encode_ms = 0.125;
  RequestRecord record;
  record.method = Method::kScoreStream;
  record.request_id = "r-1";
  record.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  record.peer = "ipv4:127.0.0.1:5";
  record.total_ms = 22.5;
  record.scored = &scored;
  EXPECT_EQ(Line(record, absl::OkStatus()),
            "INFO request method=ScoreStream code=OK request_id=r-1 "
            "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 parent_id=00f067aa0ba902b7 "
            "peer=ipv4:127.0.0.1:5 model=demo model_version=3 priority=normal backend=dense "
            "route_reason=\"\" questions=2 paths=7 unscored_paths=0 input_tokens=40 "
            "unique_tokens=30 computed_tokens=32 parts=1 batch_requests=1 decode_ms=0.5 "
            "queue_ms=1.5 plan_ms=0.25 device_ms=20 encode_queue_ms=0.0625 encode_ms=0.125 "
            "total_ms=22.5");
}

TEST(RequestLogTest, NamesTheReasonOfARefusalAndNotItsText) {
  const std::string line = Line({}, ErrorFor(ErrorReason::kPolicyUnavailable, "of model secret"));
  EXPECT_THAT(line, HasSubstr("code=FAILED_PRECONDITION"));
  EXPECT_THAT(line, HasSubstr("reason=POLICY_UNAVAILABLE"));
  EXPECT_THAT(line, Not(HasSubstr("secret")));
}

TEST(RequestLogTest, AWrongRequestHasTheFieldAndTheReason) {
  Violations violations;
  violations.Add("questions[3].candidates[7].tokens", "2100 tokens exceed max_path_tokens 2048");
  violations.Add("outputs", "another");
  EXPECT_THAT(Line({}, violations.ToStatus()),
              HasSubstr("code=INVALID_ARGUMENT request_id=\"\" "
                        "reason=\"2100 tokens exceed max_path_tokens 2048\" "
                        "field=questions[3].candidates[7].tokens "));
  const std::vector<std::string> loaded = {"demo"};
  EXPECT_THAT(
      Line({}, UnknownModelError("nobody", loaded)),
      HasSubstr("code=NOT_FOUND request_id=\"\" reason=\"not loaded: nobody\" field=model "));
}

TEST(RequestLogTest, NoTokenOfARequestIsLogged) {
  Violations violations;
  violations.Add("questions[0].prefix", "token 31337 at index 2 is outside the vocabulary of 1000",
                 "a token at index 2 is outside the vocabulary of 1000");
  const absl::Status status = violations.ToStatus();
  EXPECT_THAT(std::string(status.message()), HasSubstr("31337")) << "the client is told";
  EXPECT_THAT(Line({}, status), Not(HasSubstr("31337")));
  EXPECT_THAT(Line({}, status), HasSubstr("a token at index 2 is outside the vocabulary"));
}

// The client chooses every part of the line that it can.
TEST(RequestLogTest, TextsFromOutsideAreCutAndEscaped) {
  const std::string large(15'000, '\n');
  Violations violations;
  violations.Add(large, large);
  RequestRecord record;
  record.request_id = large;
  record.traceparent = large;
  record.peer = large;
  // Each byte becomes six bytes.
  EXPECT_LT(Line(record, violations.ToStatus()).size(), 4 * (6 * 128) + 300);
  const std::vector<std::string> loaded = {"demo"};
  EXPECT_LT(Line(record, UnknownModelError(large, loaded)).size(), 4 * (6 * 128) + 300);
}

TEST(RequestLogTest, AnInternalErrorHasTheIdThatTheClientGets) {
  const WireError error = ToWireError(absl::InternalError("weights"));
  ASSERT_EQ(error.internal_id.size(), 16);
  EXPECT_EQ(error.status.error_message(), absl::StrCat("internal error ", error.internal_id));
  EXPECT_THAT(FormatLogLine(LogFormat::kText, "", "", RequestFields({}, error, "x")),
              HasSubstr(absl::StrCat("error_id=", error.internal_id)));
}

TEST(RequestLogTest, LongAndHostileIdsAreCutAndEscaped) {
  RequestRecord record;
  const std::string id = absl::StrCat("\n\"\xff", std::string(1'000'000, 'x'));
  record.request_id = id;
  record.traceparent = "00-not a trace\n";
  const std::string line = Line(record, absl::OkStatus());
  EXPECT_THAT(line, HasSubstr(absl::StrCat("request_id=\"\\u000a\\\"\\ufffd", std::string(125, 'x'),
                                           "...\"")));
  EXPECT_THAT(line, Not(HasSubstr("trace")));
  EXPECT_LT(line.size(), 300);
}

TEST(RequestLogTest, WritesWhatWasAskedFor) {
  const WireError ok = ToWireError(absl::OkStatus());
  const WireError refused = ToWireError(absl::NotFoundError("model"));
  EXPECT_FALSE(RequestLog(LogRequests::kNone).Wants(refused));
  EXPECT_FALSE(RequestLog(LogRequests::kErrors).Wants(ok));
  EXPECT_TRUE(RequestLog(LogRequests::kErrors).Wants(refused));
  EXPECT_TRUE(RequestLog(LogRequests::kAll).Wants(ok));
}

TEST(RequestLogTest, MakesAnIdWhereThereIsNone) {
  const RequestLog log(LogRequests::kAll);
  RequestRecord record;
  const std::string first = log.Write(record, {});
  EXPECT_EQ(first.size(), 16);
  EXPECT_NE(log.Write(record, {}), first);
  record.request_id = "mine";
  EXPECT_EQ(log.Write(record, {}), "");
  // An id that is in no line is useless.
  record.request_id = "";
  SetLogOptions({LogFormat::kText, 1});
  int written = 0;
  while (written < 10'000 && !log.Write(record, {}).empty()) {
    ++written;
  }
  EXPECT_LT(written, 10'000);
  SetLogOptions({});
}

TEST(RequestLogTest, FindsTheIdWithoutReadingTheRest) {
  v1::ScoreRequest request;
  request.set_request_id("r-7");
  request.add_questions()->set_id("q");
  std::string bytes = request.SerializeAsString();
  EXPECT_EQ(FindRequestId(bytes), "r-7");
  EXPECT_EQ(FindRequestId(absl::StrCat(bytes, "\xff\xff")), "r-7");
  EXPECT_EQ(FindRequestId(""), "");
  EXPECT_EQ(FindRequestId("\xff"), "");
  std::string hostile;
  for (int i = 0; i < 100; ++i) {
    request.Clear();
    request.add_questions();
    hostile += request.SerializeAsString();
  }
  EXPECT_EQ(FindRequestId(absl::StrCat(hostile, bytes)), "");
}

}  // namespace
}  // namespace canopy::server
