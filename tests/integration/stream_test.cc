// ScoreStream with a real server: order of answers, errors, limits, a reader that stalls, and ends.
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

v1::ScoreRequest SmallRequest(const std::string& id) {
  v1::ScoreRequest request;
  request.set_request_id(id);
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  return request;
}

// Returns a request that runs in many parts under a budget of 64 tokens.
v1::ScoreRequest LargeRequest(const std::string& id) {
  v1::ScoreRequest request;
  request.set_request_id(id);
  for (uint32_t question = 0; question < 20; ++question) {
    AddQuestion(&request, std::vector<uint32_t>(40, question), {{1}, {2}, {3}});
  }
  return request;
}

server::ServerOptions Options() {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

class StreamTest : public ::testing::Test {
 protected:
  void Start(const server::ServerOptions& options = Options()) {
    server_ = std::make_unique<TestServer>(options);
    Open();
  }

  void Open() {
    context_ = std::make_unique<grpc::ClientContext>();
    SetTestDeadline(context_.get());
    stream_ = server_->stub().ScoreStream(context_.get());
  }

  v1::ScoreResponse Read() {
    v1::ScoreResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }

  // Returns the status of a stream whose answers were all read.
  grpc::Status End() {
    stream_->WritesDone();
    v1::ScoreResponse response;
    EXPECT_FALSE(stream_->Read(&response)) << response.ShortDebugString();
    return stream_->Finish();
  }

  double Metric(const std::string& series) {
    return MetricValue(Scrape(server_->server().metrics_address()), series);
  }
  void Await(const std::string& series, double value) {
    AwaitMetric(server_->server().metrics_address(), series, value);
  }

  std::unique_ptr<TestServer> server_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::ScoreRequest, v1::ScoreResponse>> stream_;
};

TEST_F(StreamTest, EveryRequestIsAnsweredAsScoreAnswersIt) {
  Start();
  std::set<std::string> open;
  for (int i = 0; i < 200; ++i) {
    const std::string id = absl::StrCat("r", i);
    EXPECT_TRUE(stream_->Write(SmallRequest(id)));
    open.insert(id);
  }
  v1::ScoreResponse alone;
  ASSERT_TRUE(server_->Score(SmallRequest("alone"), &alone).ok());
  while (!open.empty()) {
    const v1::ScoreResponse response = Read();
    EXPECT_EQ(open.erase(response.request_id()), 1) << response.request_id();
    EXPECT_FALSE(response.has_error());
    ASSERT_EQ(response.results_size(), 1);
    EXPECT_EQ(response.results(0).SerializeAsString(), alone.results(0).SerializeAsString());
    EXPECT_GT(response.stats().total_ms(), 0);
  }
  EXPECT_TRUE(End().ok());
  Await("canopy_stream_requests_total{code=\"OK\"}", 200);
  Await("canopy_requests_total{code=\"OK\",method=\"ScoreStream\"}", 1);
}

TEST_F(StreamTest, AnswersComeInTheOrderOfCompletion) {
  server::ServerOptions options = Options();
  options.model.max_batch_tokens = 64;
  Start(options);
  server_->controls().gate.Close();
  stream_->Write(LargeRequest("large"));
  server_->controls().gate.AwaitWaiter();
  stream_->Write(SmallRequest("small"));
  Await(kQueuedRequests, 2);
  server_->controls().gate.Open();
  EXPECT_EQ(Read().request_id(), "small");
  EXPECT_EQ(Read().request_id(), "large");
  EXPECT_TRUE(End().ok());
}

TEST_F(StreamTest, ARequestThatScoreRefusesIsAnErrorAndTheStreamContinues) {
  Start();
  const auto expect_like_score = [this](const v1::ScoreRequest& request) {
    v1::ScoreResponse response;
    const grpc::Status alone = server_->Score(request, &response);
    ASSERT_FALSE(alone.ok());
    stream_->Write(request);
    const v1::ScoreResponse answer = Read();
    EXPECT_EQ(answer.request_id(), request.request_id());
    EXPECT_EQ(answer.error().code(), alone.error_code());
    EXPECT_EQ(answer.error().message(), alone.error_message());
    google::rpc::Status details;
    if (!alone.error_details().empty() && details.ParseFromString(alone.error_details())) {
      EXPECT_EQ(answer.error().SerializeAsString(), details.SerializeAsString());
    }
    EXPECT_EQ(answer.results_size(), 0);
  };
  v1::ScoreRequest request = SmallRequest("a");
  request.set_model("nobody");
  expect_like_score(request);
  request = SmallRequest("b");
  request.mutable_questions(0)->clear_candidates();
  request.mutable_outputs()->set_top_logprobs(1'000);
  expect_like_score(request);
  request = SmallRequest("c");
  request.set_min_model_version(7);
  expect_like_score(request);
  request = SmallRequest("d");
  request.mutable_routing()->set_backend(v1::BACKEND_FUSED);
  expect_like_score(request);
  server_->controls().LimitSlots(1);
  expect_like_score(SmallRequest("e"));
  server_->controls().LimitSlots(0);
  stream_->Write(SmallRequest("f"));
  EXPECT_FALSE(Read().has_error());
  EXPECT_TRUE(End().ok());
}

TEST_F(StreamTest, ARequestNeedsAnIdThatIsNotInFlight) {
  Start();
  stream_->Write(SmallRequest(""));
  v1::ScoreResponse answer = Read();
  EXPECT_EQ(answer.error().code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(answer.error().message(), HasSubstr("request_id"));
  EXPECT_EQ(answer.error().details_size(), 1);

  server_->controls().gate.Close();
  stream_->Write(SmallRequest("twin"));
  stream_->Write(SmallRequest("twin"));
  answer = Read();
  EXPECT_EQ(answer.request_id(), "twin");
  EXPECT_EQ(answer.error().code(), Code::INVALID_ARGUMENT);
  server_->controls().gate.Open();
  EXPECT_FALSE(Read().has_error()) << "the first one is not touched";
  stream_->Write(SmallRequest("twin"));
  EXPECT_FALSE(Read().has_error()) << "an answered id may come again";
  EXPECT_TRUE(End().ok());
}

TEST_F(StreamTest, ReadingStopsWhenTooManyAreUnanswered) {
  server::ServerOptions options = Options();
  options.calls.max_stream_in_flight = 4;
  Start(options);
  server_->controls().gate.Close();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(stream_->Write(SmallRequest(absl::StrCat(i))));
  }
  Await("canopy_accepted_requests_total", 4);
  // Other calls are served meanwhile, and nothing more of this stream is read.
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    v1::Model model;
    EXPECT_TRUE(server_->stub().GetModel(&context, v1::GetModelRequest(), &model).ok());
  }
  EXPECT_EQ(Metric("canopy_accepted_requests_total"), 4);
  server_->controls().gate.Open();
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(Read().has_error());
  }
  EXPECT_TRUE(End().ok());
  Await("canopy_accepted_requests_total", 10);
}

TEST_F(StreamTest, AStalledReaderHoldsAtMostTheStreamsLimit) {
  server::ServerOptions options = Options();
  options.calls.max_stream_in_flight = 4;
  Start(options);
  constexpr int kRequests = 24;
  v1::ScoreRequest request;
  std::vector<std::vector<uint32_t>> candidates;
  for (uint32_t i = 0; i < 16'000; ++i) {
    candidates.push_back({i % 900, i / 900});
  }
  AddQuestion(&request, {}, candidates);
  request.mutable_outputs()->set_vectors(true);  // half a megabyte per answer
  std::future<void> writer = std::async(std::launch::async, [&] {
    for (int i = 0; i < kRequests; ++i) {
      request.set_request_id(absl::StrCat(i));
      stream_->Write(request);
    }
  });
  while (Metric("canopy_ended_requests_total{outcome=\"answered\"}") < 4) {
    std::this_thread::yield();
  }
  // The client's window accepts some answers even if the client does not read.
  v1::ScoreResponse response;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(server_->Score(SmallRequest("other"), &response).ok());
  }
  EXPECT_LT(Metric("canopy_stream_requests_total{code=\"OK\"}"), kRequests / 2);
  std::set<std::string> ids;
  for (int i = 0; i < kRequests; ++i) {
    ids.insert(Read().request_id());
  }
  writer.get();
  EXPECT_EQ(ids.size(), kRequests);
  EXPECT_TRUE(End().ok());
}

TEST_F(StreamTest, RequestsOfADisconnectedClientAreNotRun) {
  Start();
  server_->controls().gate.Close();
  for (int i = 0; i < 5; ++i) {
    stream_->Write(SmallRequest(absl::StrCat(i)));
  }
  Await(kQueuedRequests, 4);
  context_->TryCancel();
  EXPECT_EQ(stream_->Finish().error_code(), Code::CANCELLED);
  // The requests are answered while the device is still busy with the first one.
  Await("canopy_ended_requests_total{outcome=\"cancelled\"}", 5);
  Await("canopy_requests_in_flight{method=\"ScoreStream\"}", 0);
  server_->controls().gate.Open();
  v1::ScoreResponse response;
  EXPECT_TRUE(server_->Score(SmallRequest("next"), &response).ok());
  EXPECT_EQ(server_->controls().forwards(), 2);
  EXPECT_GT(Metric("canopy_wasted_device_seconds_total"), 0);
}

// The client's own timer does not fire, because the deadline is sent to the server as metadata
// only.
TEST_F(StreamTest, TheStreamsDeadlineAppliesToItsRequests) {
  Start();
  server_->controls().gate.Close();
  context_ = std::make_unique<grpc::ClientContext>();
  context_->AddMetadata("grpc-timeout", "1S");
  stream_ = server_->stub().ScoreStream(context_.get());
  stream_->Write(SmallRequest("a"));
  stream_->Write(SmallRequest("b"));
  // The answers may arrive before the end of the stream.
  for (v1::ScoreResponse response; stream_->Read(&response);) {
    EXPECT_EQ(response.error().code(), Code::DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(stream_->Finish().error_code(), Code::DEADLINE_EXCEEDED);
  Await("canopy_requests_in_flight{method=\"ScoreStream\"}", 0);
  const double accepted = Metric("canopy_accepted_requests_total");
  EXPECT_GT(accepted, 0);
  EXPECT_EQ(Metric("canopy_ended_requests_total{outcome=\"expired\"}"), accepted);
  server_->controls().gate.Open();
}

TEST_F(StreamTest, ADrainAnswersWhatWasAcceptedAndEndsStreams) {
  Start();
  grpc::ClientContext idle_context;
  SetTestDeadline(&idle_context);
  const auto idle = server_->stub().ScoreStream(&idle_context);
  idle->Write(SmallRequest("idle"));
  v1::ScoreResponse response;
  EXPECT_TRUE(idle->Read(&response));

  server_->controls().gate.Close();
  stream_->Write(SmallRequest("a"));
  stream_->Write(SmallRequest("b"));
  Await(kQueuedRequests, 1);
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return server_->server().Drain(absl::Seconds(60)); });
  EXPECT_FALSE(idle->Read(&response));
  EXPECT_EQ(idle->Finish().error_code(), Code::UNAVAILABLE) << "at once: nothing is in flight";
  server_->controls().gate.Open();
  EXPECT_FALSE(Read().has_error());
  EXPECT_FALSE(Read().has_error());
  EXPECT_FALSE(stream_->Read(&response));
  EXPECT_EQ(stream_->Finish().error_code(), Code::UNAVAILABLE);
  EXPECT_TRUE(drained.get());
}

}  // namespace
}  // namespace canopy::testing
