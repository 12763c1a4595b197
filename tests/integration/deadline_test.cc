// What a client says of its deadline in `grpc-timeout`, from a nanosecond to the longest that the
// header can carry, and what a server makes of it. The clients here have no deadline of their own:
// the header is sent as metadata.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using Code = grpc::StatusCode;

struct Timeout {
  std::string header;
  absl::Duration duration;
};

// Every unit at both ends of its eight digits, and the hours around which int64 nanoseconds end.
// Go's clients send 2562047H for no deadline, and Java's 2562047H or less.
std::vector<Timeout> AllTimeouts() {
  const std::vector<std::pair<char, absl::Duration>> units = {
      {'n', absl::Nanoseconds(1)}, {'u', absl::Microseconds(1)}, {'m', absl::Milliseconds(1)},
      {'S', absl::Seconds(1)},     {'M', absl::Minutes(1)},      {'H', absl::Hours(1)}};
  std::vector<Timeout> timeouts;
  for (const auto& [letter, unit] : units) {
    for (const int64_t count : {1, 99'999'999}) {
      timeouts.push_back({absl::StrCat(count, std::string(1, letter)), count * unit});
    }
  }
  for (const int64_t hours : {2'000'000, 2'562'046, 2'562'047, 2'562'048, 9'999'999}) {
    timeouts.push_back({absl::StrCat(hours, "H"), absl::Hours(hours)});
  }
  return timeouts;
}

v1::Question SmallQuestion() {
  v1::ScoreRequest request;
  return *AddQuestion(&request, {1, 2}, {{3}, {4}});
}

v1::ScoreRequest SmallRequest() {
  v1::ScoreRequest request;
  *request.add_questions() = SmallQuestion();
  return request;
}

Code Score(TestServer* server, grpc::ClientContext* context) {
  v1::ScoreResponse response;
  return server->stub().Score(context, SmallRequest(), &response).error_code();
}

Code Explain(TestServer* server, grpc::ClientContext* context) {
  v1::ExplainRequest request;
  *request.mutable_request() = SmallRequest();
  v1::ExplainResponse response;
  return server->stub().Explain(context, request, &response).error_code();
}

// The code of one request on a stream of its own, or of the stream if that ends first.
Code Stream(TestServer* server, grpc::ClientContext* context) {
  const auto stream = server->stub().ScoreStream(context);
  v1::ScoreRequest request = SmallRequest();
  request.set_request_id("r");
  v1::ScoreResponse response;
  bool answered = stream->Write(request) && stream->Read(&response);
  stream->WritesDone();
  v1::ScoreResponse rest;
  while (stream->Read(&rest)) {
  }
  const grpc::Status end = stream->Finish();
  return answered ? static_cast<Code>(response.error().code()) : end.error_code();
}

using Method = Code (*)(TestServer* server, grpc::ClientContext* context);

struct Named {
  const char* name;
  Method call;
};
constexpr Named kMethods[] = {{"Score", Score}, {"Explain", Explain}, {"ScoreStream", Stream}};

// On a machine of any speed: a call that is ended for its deadline has had its time.
TEST(DeadlineTest, NoCallEndsBeforeItsTimeout) {
  TestServer server;
  for (const Timeout& timeout : AllTimeouts()) {
    for (const Named& method : kMethods) {
      SCOPED_TRACE(absl::StrCat(method.name, " with grpc-timeout ", timeout.header));
      grpc::ClientContext context;
      context.AddMetadata("grpc-timeout", timeout.header);
      const absl::Time begin = absl::Now();
      const Code code = method.call(&server, &context);
      const absl::Duration passed = absl::Now() - begin;
      if (code != Code::OK) {
        EXPECT_TRUE(code == Code::DEADLINE_EXCEEDED || code == Code::CANCELLED) << code;
        EXPECT_GE(passed, timeout.duration);
      }
    }
  }
}

// The device is busy, so that nothing is answered in time.
TEST(DeadlineTest, ShortTimeoutsEndCallsThatWait) {
  TestServer server;
  server.controls().gate.Close();
  for (const Timeout& timeout : AllTimeouts()) {
    if (timeout.duration > absl::Milliseconds(200)) {
      continue;
    }
    for (const Named& method : kMethods) {
      if (method.call == Explain) {
        continue;  // It does not wait for the device.
      }
      SCOPED_TRACE(absl::StrCat(method.name, " with grpc-timeout ", timeout.header));
      grpc::ClientContext context;
      context.AddMetadata("grpc-timeout", timeout.header);
      const Code code = method.call(&server, &context);
      EXPECT_TRUE(code == Code::DEADLINE_EXCEEDED || code == Code::CANCELLED) << code;
    }
  }
  server.controls().gate.Open();
}

TEST(DeadlineTest, AMalformedTimeoutDoesNotHurtTheServer) {
  TestServer server;
  for (const char* header : {"", "H", "1", "1x", "-1S", "999999999H", "1 S", "1H1"}) {
    for (const Named& method : kMethods) {
      grpc::ClientContext context;
      SetTestDeadline(&context);
      context.AddMetadata("grpc-timeout", header);
      (void)method.call(&server, &context);
    }
  }
  grpc::ClientContext context;
  SetTestDeadline(&context);
  EXPECT_EQ(Score(&server, &context), Code::OK);
}

TEST(DeadlineTest, AServerThatMayDrainForEverStillEnds) {
  TestServer server;
  grpc::ClientContext context;
  SetTestDeadline(&context);
  EXPECT_EQ(Score(&server, &context), Code::OK);
  EXPECT_TRUE(server.server().Drain(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace canopy::testing
