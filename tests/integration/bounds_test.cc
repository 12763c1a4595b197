// The limits of a server: memory of unanswered requests, and answers that nobody reads.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/channel_arguments.h"
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

// Returns a request whose answer has half a megabyte, which exceeds the window of a connection.
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

// A Score call whose client does not read the answer, so that the unread bytes fill the call's
// window.
class UnreadCall {
 public:
  UnreadCall(const std::string& address, const v1::ScoreRequest& request)
      : channel_(ConnectWithSmallWindow(address)), stub_(channel_) {
    SetTestDeadline(&context_);
    call_ = stub_.PrepareCall(&context_, "/canopy.v1.Scorer/Score", &queue_);
    call_->StartCall(nullptr);
    EXPECT_TRUE(AwaitStep());
    const grpc::Slice slice(request.SerializeAsString());
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    EXPECT_TRUE(AwaitStep());
  }
  UnreadCall(const UnreadCall&) = delete;
  UnreadCall& operator=(const UnreadCall&) = delete;

  // Reads the answer to its end. Call it once.
  grpc::Status End() {
    grpc::ByteBuffer answer;
    do {
      call_->Read(&answer, nullptr);
    } while (AwaitStep());
    grpc::Status status;
    call_->Finish(&status, nullptr);
    EXPECT_TRUE(AwaitStep());
    return status;
  }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  static std::shared_ptr<grpc::Channel> ConnectWithSmallWindow(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 10);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // or gRPC would widen it
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  bool AwaitStep() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class BoundsTest : public ::testing::Test {
 protected:
  BoundsTest() { options_.metrics_listen = "127.0.0.1:0"; }

  void Start() { server_ = std::make_unique<TestServer>(options_); }

  std::string metrics() { return server_->server().metrics_address(); }
  double Metric(const std::string& series) { return MetricValue(Scrape(metrics()), series); }

  // While one request is on the device, there is no memory for a second one, by either RPC.
  void ExpectOneAtATime() {
    Start();
    server_->controls().gate.Close();
    grpc::ClientContext context;
    SetTestDeadline(&context);
    const v1::ScoreRequest request = SmallRequest();
    v1::ScoreResponse response;
    grpc::Status first;
    Notification answered;
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

  void ServeOthersUntilACut(const std::function<void()>& serve) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (Metric("canopy_stalled_calls_total") < 1) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "nothing was cut";
      serve();
    }
  }

  server::ServerOptions options_ = FakeServerOptions();
  std::unique_ptr<TestServer> server_;
};

TEST_F(BoundsTest, MemoryOfRequestsIsBounded) {
  options_.calls.max_request_memory_bytes = 1;
  ExpectOneAtATime();
}

TEST_F(BoundsTest, NearTheProcessesLimitRequestsRunOneAtATime) {
  options_.calls.memory_limit_bytes = 1 << 20;  // less than any process takes
  ExpectOneAtATime();
  EXPECT_EQ(Metric("canopy_memory_limit_bytes"), 1 << 20);
  EXPECT_GT(Metric("canopy_memory_used_bytes"), 1 << 20);
}

TEST_F(BoundsTest, TheMemoryOfAnAnswerIsReleasedOnceItIsWritten) {
  Start();
  v1::ScoreResponse response;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Succeeded(server_->Score(LargeAnswer(""), &response)));
  }
  // Refused calls do not hold memory either.
  v1::ScoreRequest wrong = SmallRequest();
  wrong.set_model("nobody");
  EXPECT_FALSE(server_->Score(wrong, &response).ok());
  AwaitMetric(metrics(), "canopy_request_memory_bytes", 0);
}

// The server must cut the call before the client's own deadline of half a minute.
TEST_F(BoundsTest, AStreamThatNobodyReadsIsCutAndOthersAreNotAffected) {
  options_.calls.max_stream_in_flight = 4;
  options_.calls.write_timeout = absl::Seconds(2);
  Start();
  grpc::ClientContext context;
  SetTestDeadline(&context);
  const auto stream = server_->stub().ScoreStream(&context);
  std::future<void> writer = std::async(std::launch::async, [&] {
    for (int i = 0; i < 64 && stream->Write(LargeAnswer(absl::StrCat(i))); ++i) {
    }
  });
  ServeOthersUntilACut([&] {
    v1::ScoreResponse response;
    EXPECT_TRUE(Succeeded(server_->Score(SmallRequest(), &response)));
    // The requests that were read, are in progress or whose answers are not written stay within the
    // stream's limit.
    EXPECT_LE(Metric("canopy_request_memory_bytes"), 6 * 8'000'000);
  });
  AwaitMetric(metrics(), "canopy_requests_in_flight{method=\"ScoreStream\"}", 0);
  AwaitMetric(metrics(), "canopy_request_memory_bytes", 0);
  // gRPC reports the end after the client has read everything before it.
  v1::ScoreResponse response;
  while (stream->Read(&response)) {
  }
  writer.get();
  const grpc::Status status = stream->Finish();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.error_code(), Code::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_EQ(Metric("canopy_stalled_calls_total"), 1);
  EXPECT_TRUE(Succeeded(server_->Score(SmallRequest(), &response)));
}

TEST_F(BoundsTest, ACallWhoseAnswerNobodyReadsIsCutAndOthersDoNotNotice) {
  options_.calls.write_timeout = absl::Seconds(2);
  Start();
  UnreadCall unread(server_->server().address(), LargeAnswer("unread"));
  const auto neighbour = v1::Scorer::NewStub(unread.channel());
  ServeOthersUntilACut([&] {
    // Other calls are answered, on another connection and on the same one.
    v1::ScoreResponse response;
    EXPECT_TRUE(Succeeded(server_->Score(SmallRequest(), &response)));
    grpc::ClientContext context;
    SetTestDeadline(&context);
    EXPECT_TRUE(Succeeded(neighbour->Score(&context, SmallRequest(), &response)));
  });
  AwaitMetric(metrics(), "canopy_request_memory_bytes", 0);
  const grpc::Status status = unread.End();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.error_code(), Code::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_EQ(Metric("canopy_stalled_calls_total"), 1);
  v1::ScoreResponse response;
  EXPECT_TRUE(Succeeded(server_->Score(SmallRequest(), &response)));
}

}  // namespace
}  // namespace canopy::testing
