// Tests the driver on streams, against in-process servers that answer, refuse, end, stall and send
// wrong messages.
#include "client/load/traffic/stream_sender.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/load/traffic/load_driver.h"
#include "client/load/traffic/testing/hash_scorer.h"
#include "client/load/traffic/testing/run_to_end.h"
#include "client/testing/fake_scorer.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using Stream = FakeScorer::Stream;

grpc::Status Answer(grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                    v1::ScoreResponse* response) {
  *response = HashAnswer(request);
  return grpc::Status::OK;
}

// Ends when the client has gone.
grpc::Status Stall(Stream* stream) {
  v1::ScoreRequest request;
  while (stream->Read(&request)) {
  }
  return grpc::Status::OK;
}

class StreamSenderTest : public ::testing::Test {
 protected:
  StreamSenderTest() : pool_(HashPool()) {
    server_.score = Answer;
    options_.rpc = LoadRpc::kStream;
    options_.targets = {{server_.target(), 1}};
    options_.clients = 8;
    options_.connections = 2;
    options_.duration = kForever;
    options_.max_requests = 200;
    options_.client.initial_backoff = absl::Milliseconds(1);
    options_.verify = true;
  }

  LoadResult Run() {
    HandOver(&server_);
    LoadResult result = RunToEnd(options_, &pool_);
    TakeOver(&server_);
    return result;
  }

  FakeScorer server_;
  DriverOptions options_;
  RequestPool pool_;
};

TEST_F(StreamSenderTest, AllCallsOfAConnectionShareAStream) {
  Mutex mutex;
  std::multiset<std::string> ids;
  server_.score = [&](auto* context, const v1::ScoreRequest& request, auto* response) {
    const auto found = context->client_metadata().find("authorization");
    EXPECT_TRUE(found != context->client_metadata().end() && found->second == "Bearer secret");
    MutexLock lock(&mutex);
    ids.insert(request.request_id());
    return Answer(context, request, response);
  };
  options_.token = "secret";
  const LoadResult result = Run();
  EXPECT_THAT(result.total.outcomes, ElementsAre(Pair("OK", 200)));
  EXPECT_THAT(result.wrong_answers, IsEmpty());
  EXPECT_EQ(result.total.num_candidates(CallOutcome::kAnswered), 1'200);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 200);
  EXPECT_EQ(ids.size(), 200);
  EXPECT_EQ(server_.num_streams(), 2);
}

TEST_F(StreamSenderTest, AnOpenLoopHasManyInFlight) {
  // No request is answered before all have arrived.
  options_.arrivals = TraceArrivals(std::vector<absl::Duration>(20));
  options_.connections = 1;
  server_.score_stream = [](grpc::ServerContext* /*context*/, Stream* stream) {
    std::vector<v1::ScoreRequest> requests(20);
    for (v1::ScoreRequest& request : requests) {
      EXPECT_TRUE(stream->Read(&request));
    }
    for (const v1::ScoreRequest& request : requests) {
      stream->Write(HashAnswer(request));
    }
    return Stall(stream);
  };
  EXPECT_EQ(Run().total.num(CallOutcome::kAnswered), 20);
}

TEST_F(StreamSenderTest, RefusalsAreCountedAndRetriedAsThoseOfScore) {
  Mutex mutex;
  std::map<std::string, int> attempts;
  server_.score = [&](auto* context, const v1::ScoreRequest& request, auto* response) {
    MutexLock lock(&mutex);
    if (++attempts[request.request_id()] > 1) {
      return Answer(context, request, response);
    }
    google::rpc::RetryInfo info;
    info.mutable_retry_delay()->set_nanos(1'000);
    google::rpc::Status details;
    details.add_details()->PackFrom(info);
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", details.SerializeAsString());
  };
  options_.client.max_attempts = 2;
  const LoadResult answered = Run();
  EXPECT_EQ(answered.total.num(CallOutcome::kAnswered), 200);
  EXPECT_EQ(answered.total.retries, 200);
  attempts.clear();
  options_.client.max_attempts = 1;
  EXPECT_THAT(Run().total.outcomes, ElementsAre(Pair("RESOURCE_EXHAUSTED", 200)));
  EXPECT_EQ(server_.num_streams(), 4) << "a refusal does not end its stream";
}

TEST_F(StreamSenderTest, AStreamThatTheServerEndsIsReplaced) {
  server_.score_stream = [](grpc::ServerContext* /*context*/, Stream* stream) {
    v1::ScoreRequest request;
    for (int i = 0; i < 5 && stream->Read(&request); ++i) {
      stream->Write(HashAnswer(request));
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  };
  options_.client.max_attempts = 5;
  options_.clients = 2;  // one per stream: its next call finds the stream ended at most once
  const LoadResult result = Run();
  EXPECT_EQ(result.total.num(CallOutcome::kAnswered), 200);
  EXPECT_GT(result.total.retries, 0);
  EXPECT_GE(server_.num_streams(), 40);
}

TEST_F(StreamSenderTest, CallsInFlightEndWithACancelledOrCutStream) {
  server_.score_stream = [](grpc::ServerContext* /*context*/, Stream* stream) {
    return Stall(stream);
  };
  options_.abandon_within = absl::Milliseconds(1);
  options_.cancel_share = 1;
  const LoadResult cancelled = Run();
  EXPECT_THAT(cancelled.total.outcomes, ElementsAre(Pair("cancelled here", 200)));
  options_.cancel_share = 0;
  options_.kill_share = 1;
  const LoadResult killed = Run();
  EXPECT_THAT(killed.total.outcomes, ElementsAre(Pair("killed here", 200)));
  EXPECT_EQ(killed.total.error_share(), 0);
  // There are fewer streams than calls, because other calls ended with the one that was given up.
  EXPECT_LT(server_.num_streams(), 400);
}

TEST_F(StreamSenderTest, OtherCallsAreNotAffected) {
  options_.cancel_share = 0.02;
  options_.kill_share = 0.02;
  options_.abandon_within = absl::Microseconds(200);
  options_.max_requests = 2'000;
  const LoadResult result = Run();
  EXPECT_THAT(result.wrong_answers, IsEmpty());
  EXPECT_EQ(result.total.num(CallOutcome::kRefused), 0);
  EXPECT_GT(result.total.num(CallOutcome::kAnswered), 1'000);
}

TEST_F(StreamSenderTest, AServerThatNeverAnswersEndsAtTheDeadline) {
  server_.score_stream = [](grpc::ServerContext* /*context*/, Stream* stream) {
    return Stall(stream);
  };
  options_.client.deadline = absl::Milliseconds(50);
  options_.max_requests = 8;
  EXPECT_THAT(Run().total.outcomes, ElementsAre(Pair("DEADLINE_EXCEEDED", 8)));
}

TEST_F(StreamSenderTest, FindsWhatAStreamCanGetWrong) {
  const std::pair<std::string, std::function<grpc::Status(Stream*, v1::ScoreResponse)>> cases[] = {
      {"which is answered already or was never sent",
       [](Stream* stream, const v1::ScoreResponse& answer) {
         stream->Write(answer);
         stream->Write(answer);
         return Stall(stream);
       }},
      {"answer to request 'load-777'",
       [](Stream* stream, v1::ScoreResponse answer) {
         stream->Write(answer);
         answer.set_request_id("load-777");
         stream->Write(answer);
         return Stall(stream);
       }},
      {"the stream ended without its answer",
       [](Stream* /*stream*/, const v1::ScoreResponse& /*answer*/) { return grpc::Status::OK; }},
      {"error without a code",
       [](Stream* stream, v1::ScoreResponse answer) {
         answer.mutable_error()->set_message("x");
         stream->Write(answer);
         return Stall(stream);
       }},
      {"questions[0].candidates[1].score: expected 0.",
       [](Stream* stream, v1::ScoreResponse answer) {
         answer.mutable_results(0)->mutable_candidates(1)->set_score(7);
         stream->Write(answer);
         return Stall(stream);
       }},
  };
  options_.clients = 1;
  options_.connections = 1;
  options_.max_requests = 1;
  for (const auto& [found, act] : cases) {
    SCOPED_TRACE(found);
    server_.score_stream = [act = act](grpc::ServerContext* /*context*/, Stream* stream) {
      v1::ScoreRequest request;
      return stream->Read(&request) ? act(stream, HashAnswer(request)) : grpc::Status::OK;
    };
    const LoadResult result = Run();
    ASSERT_THAT(result.wrong_answers, SizeIs(1));
    EXPECT_THAT(result.wrong_answers[0], HasSubstr(found));
  }
}

// The answers of two requests in flight swap their ids, which only their numbers show.
TEST_F(StreamSenderTest, FindsSwappedAnswers) {
  options_.arrivals = TraceArrivals(std::vector<absl::Duration>(2));
  options_.in_order = true;  // so that the requests are different
  options_.connections = 1;
  server_.score_stream = [](grpc::ServerContext* /*context*/, Stream* stream) {
    v1::ScoreRequest requests[2];
    EXPECT_TRUE(stream->Read(&requests[0]) && stream->Read(&requests[1]));
    v1::ScoreResponse answers[2] = {HashAnswer(requests[0]), HashAnswer(requests[1])};
    answers[0].mutable_request_id()->swap(*answers[1].mutable_request_id());
    stream->Write(answers[0]);
    stream->Write(answers[1]);
    return Stall(stream);
  };
  const LoadResult result = Run();
  ASSERT_THAT(result.wrong_answers, SizeIs(2));
  EXPECT_THAT(result.wrong_answers[0], HasSubstr("score: expected 0."));
}

}  // namespace
}  // namespace canopy::client
