// What a server holds at most: memory of unanswered requests, answers that nobody reads.
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using Code = grpc::StatusCode;

v1::ScoreRequest SmallRequest(const std::string& id = "") {
  v1::ScoreRequest request;
  request.set_request_id(id);
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  return request;
}

// Half a megabyte an answer: more than a connection takes unread.
v1::ScoreRequest LargeAnswer(const std::string& id) {
  v1::ScoreRequest request;
  request.set_request_id(id);
  std::vector<std::vector<uint32_t>> candidates;
  for (uint32_t i = 0; i < 16'000; ++i) {
    candidates.push_back({i % 900, i / 900});
  }
  AddQuestion(&request, {}, candidates);
  request.mutable_outputs()->set_vectors(true);
  return request;
}

class BoundsTest : public ::testing::Test {
 protected:
  BoundsTest() { options_.metrics_listen = "127.0.0.1:0"; }

  void Start() { server_ = std::make_unique<TestServer>(options_); }

  std::string metrics() { return server_->server().metrics_address(); }
  double Metric(const std::string& series) { return MetricValue(Scrape(metrics()), series); }

  // While one request is on the device, a second finds no room for its memory, by either way.
  void ExpectOneAtATime() {
    Start();
    server_->controls().gate.Close();
    grpc::ClientContext context;
    SetTestDeadline(&context);
    const v1::ScoreRequest request = SmallRequest();
    v1::ScoreResponse response;
    grpc::Status first;
    absl::Notification answered;
    server_->stub().async()->Score(&context, &request, &response, [&](grpc::Status status) {
      first = std::move(status);
      answered.Notify();
    });
    server_->controls().gate.AwaitWaiter();
    v1::ScoreResponse refused_response;
    const grpc::Status refused = server_->Score(SmallRequest(), &refused_response);
    EXPECT_EQ(refused.error_code(), Code::RESOURCE_EXHAUSTED) << refused.error_message();
    EXPECT_NE(FindDetail<google::rpc::RetryInfo>(refused), nullptr);
    grpc::ClientContext stream_context;
    SetTestDeadline(&stream_context);
    const auto stream = server_->stub().ScoreStream(&stream_context);
    EXPECT_TRUE(stream->Write(SmallRequest("a")));
    EXPECT_TRUE(stream->Read(&refused_response));
    EXPECT_EQ(refused_response.error().code(), Code::RESOURCE_EXHAUSTED);
    EXPECT_EQ(refused_response.error().details_size(), 2);  // RetryInfo, ErrorInfo
    EXPECT_EQ(Metric("canopy_accepted_requests_total"), 1) << "refused before the queue";
    EXPECT_EQ(Metric("canopy_refused_requests_total{reason=\"memory\"}"), 2);
    EXPECT_GT(Metric("canopy_request_memory_bytes"), 0);

    server_->controls().gate.Open();
    answered.WaitForNotification();
    EXPECT_TRUE(Succeeded(first));
    AwaitMetric(metrics(), "canopy_request_memory_bytes", 0);
    EXPECT_TRUE(stream->Write(SmallRequest("b")));
    EXPECT_TRUE(stream->Read(&refused_response));
    EXPECT_FALSE(refused_response.has_error()) << refused_response.ShortDebugString();
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }

  server::ServerOptions options_ = FakeServerOptions();
  std::unique_ptr<TestServer> server_;
};

TEST_F(BoundsTest, MemoryOfRequestsIsBounded) {
  options_.max_request_memory_bytes = 1;
  ExpectOneAtATime();
}

TEST_F(BoundsTest, NearTheProcessesLimitRequestsRunOneAtATime) {
  options_.memory_limit_bytes = 1 << 20;  // less than any process takes
  ExpectOneAtATime();
  EXPECT_EQ(Metric("canopy_memory_limit_bytes"), 1 << 20);
  EXPECT_GT(Metric("canopy_memory_used_bytes"), 1 << 20);
}

TEST_F(BoundsTest, TheMemoryOfAnAnswerIsGivenBackOnceItIsWritten) {
  Start();
  v1::ScoreResponse response;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeded(server_->Score(LargeAnswer(""), &response)));
  }
  // Nor do calls hold any that end otherwise.
  v1::ScoreRequest wrong = SmallRequest();
  wrong.set_model("nobody");
  EXPECT_FALSE(server_->Score(wrong, &response).ok());
  AwaitMetric(metrics(), "canopy_request_memory_bytes", 0);
}

TEST_F(BoundsTest, AStreamThatNobodyReadsIsCutAndOthersDoNotNotice) {
  options_.max_stream_in_flight = 4;
  options_.write_timeout = absl::Seconds(2);
  Start();
  grpc::ClientContext context;
  SetTestDeadline(&context);
  const auto stream = server_->stub().ScoreStream(&context);
  std::future<void> writer = std::async(std::launch::async, [&] {
    for (int i = 0; i < 64 && stream->Write(LargeAnswer(absl::StrCat(i))); ++i) {
    }
  });
  v1::ScoreResponse response;
  while (Metric("canopy_stalled_calls_total") < 1) {
    EXPECT_TRUE(Succeeded(server_->Score(SmallRequest(), &response)));
    // Read, in flight and not written: never more than the stream's credits.
    EXPECT_LE(Metric("canopy_request_memory_bytes"), 6 * 8'000'000);
  }
  writer.get();
  EXPECT_FALSE(stream->Finish().ok());
  AwaitMetric(metrics(), "canopy_requests_in_flight{method=\"ScoreStream\"}", 0);
  AwaitMetric(metrics(), "canopy_request_memory_bytes", 0);
  EXPECT_EQ(Metric("canopy_stalled_calls_total"), 1);
  EXPECT_TRUE(Succeeded(server_->Score(SmallRequest(), &response)));
}

}  // namespace
}  // namespace canopy::testing
