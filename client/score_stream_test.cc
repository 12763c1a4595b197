// Tests a stream against an in-process server, with right and with wrong messages.
#include "client/score_stream.h"

#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/error_details.h"
#include "client/testing/fake_scorer.h"
#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::HasSubstr;
using Answer = ScoreStream::Answer;
using Code = absl::StatusCode;
using Stream = FakeScorer::Stream;

v1::ScoreRequest Request(const std::string& id) {
  v1::ScoreRequest request = SampleRequest();
  request.set_request_id(id);
  return request;
}

v1::ScoreResponse Response(const std::string& id) {
  v1::ScoreResponse response = SampleResponse();
  response.set_request_id(id);
  return response;
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

class ScoreStreamTest : public ::testing::Test {
 protected:
  ScoreStreamTest() {
    options_.target = server_.target();
    options_.max_attempts = 1;
    server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                       v1::ScoreResponse* response) {
      *response = Response(request.request_id());
      return grpc::Status::OK;
    };
    server_.get_model = [](grpc::ServerContext* /*context*/, const v1::GetModelRequest& /*r*/,
                           v1::Model* model) {
      *model = SampleModel();
      (*model->mutable_limits())["max_stream_in_flight"] = 3;
      return grpc::Status::OK;
    };
  }

  std::unique_ptr<ScoreStream> Open(int max_in_flight = 64) {
    HandOver(&server_);
    client_ = *Client::Create(options_);
    absl::StatusOr<std::unique_ptr<ScoreStream>> stream = client_->OpenStream({max_in_flight});
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  // Makes the server read `count` requests and then call `then`.
  void AfterReading(int count,
                    std::function<grpc::Status(Stream*, const std::vector<std::string>&)> then) {
    server_.score_stream = [count, then = std::move(then)](grpc::ServerContext* /*context*/,
                                                           Stream* stream) {
      std::vector<std::string> ids;
      v1::ScoreRequest request;
      while (static_cast<int>(ids.size()) < count && stream->Read(&request)) {
        ids.push_back(request.request_id());
      }
      return then(stream, ids);
    };
  }

  // Ends when the client has gone.
  static grpc::Status Stall(Stream* stream) {
    v1::ScoreRequest request;
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  }

  // Must outlive the server, whose handlers wait for it.
  Notification released_;
  FakeScorer server_;
  Client::Options options_;
  std::unique_ptr<Client> client_;
};

TEST_F(ScoreStreamTest, SendsTheTraceOfTheCallerOrNothing) {
  std::string sent;
  server_.score_stream = [&sent](grpc::ServerContext* context, Stream* stream) {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find("traceparent");
    sent =
        found == metadata.end() ? "none" : std::string(found->second.data(), found->second.size());
    return Stall(stream);
  };
  HandOver(&server_);
  client_ = *Client::Create(options_);
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  for (const std::string& trace : {good, std::string()}) {
    EXPECT_TRUE((*client_->OpenStream({1}, {trace}))->Finish().ok());
    TakeOver(&server_);
    EXPECT_EQ(sent, trace.empty() ? "none" : trace);
  }
  const absl::Status status = client_->OpenStream({1}, {"00-\n"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(Text(status), HasSubstr("traceparent"));
}

TEST_F(ScoreStreamTest, EachRequestGetsItsAnswerInTheOrderOfCompletion) {
  AfterReading(5, [](Stream* stream, const std::vector<std::string>& ids) {
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      stream->Write(Response(*id));
    }
    return Stall(stream);
  });
  const auto stream = Open();
  Mutex mutex;
  std::vector<std::string> order;
  for (int i = 0; i < 5; ++i) {
    stream->Send(Request(absl::StrCat(i)), [&, i](Answer answer) {
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->SerializeAsString(), Response(absl::StrCat(i)).SerializeAsString());
      MutexLock lock(&mutex);
      order.push_back(answer->request_id());
    });
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(order, ::testing::ElementsAre("4", "3", "2", "1", "0"));
  EXPECT_EQ(server_.num_streams(), 1);
}

TEST_F(ScoreStreamTest, FuturesAndIdsThatAreFilledIn) {
  const auto stream = Open();
  std::vector<std::future<Answer>> answers;
  answers.reserve(20);
  for (int i = 0; i < 20; ++i) {
    answers.push_back(stream->Send(Request("")));
  }
  for (std::future<Answer>& future : answers) {
    EXPECT_TRUE(future.get().ok());
  }
  EXPECT_EQ(stream->num_in_flight(), 0);
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(stream->Finish().ok());
  const Answer late = stream->Send(Request("late")).get();
  EXPECT_FALSE(late.ok());
}

TEST_F(ScoreStreamTest, ManyThreadsShareAStream) {
  const auto stream = Open(/*max_in_flight=*/5);
  constexpr int kThreads = 8;
  constexpr int kEach = 200;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const std::string id = absl::StrCat(thread, "-", i);
        stream->Send(Request(id), [&, id](const Answer& answer) {
          EXPECT_TRUE(answer.ok() && answer->request_id() == id) << answer.status();
          ++answered;
        });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answered, kThreads * kEach);
}

TEST_F(ScoreStreamTest, RequestsInFlightAreLimitedByTheServersReadAhead) {
  // The limit of GetModel is 3. Without it, a fourth request would be read here before any answer.
  AfterReading(3, [this](Stream* stream, const std::vector<std::string>& ids) {
    released_.WaitForNotification();
    for (const std::string& id : ids) {
      stream->Write(Response(id));
    }
    v1::ScoreRequest request;
    while (stream->Read(&request)) {
      stream->Write(Response(request.request_id()));
    }
    return grpc::Status::OK;
  });
  const auto stream = Open(/*max_in_flight=*/0);
  BlockingCounter answers(4);
  const auto count = [&](const Answer& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    answers.DecrementCount();
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(stream->TrySend(Request(absl::StrCat(i)), count));
  }
  EXPECT_FALSE(stream->TrySend(Request("3"), count));
  EXPECT_EQ(stream->num_in_flight(), 3);
  released_.Notify();
  stream->Send(Request("3"), count);  // waits for room
  answers.Wait();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ScoreStreamTest, CallbacksMaySendTheNext) {
  const auto stream = Open(/*max_in_flight=*/1);
  Notification done;
  int left = 50;
  std::function<void(Answer)> next = [&](const Answer& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (--left == 0) {
      done.Notify();
    } else {
      EXPECT_TRUE(stream->TrySend(Request("same"), next));
    }
  };
  stream->Send(Request("same"), next);
  done.WaitForNotification();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ScoreStreamTest, ARefusalKeepsItsDetailsAndTheStreamGoesOn) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                     v1::ScoreResponse* response) {
    if (request.request_id() == "refused") {
      google::rpc::RetryInfo retry;
      retry.mutable_retry_delay()->set_nanos(5'000'000);
      google::rpc::Status details;
      details.add_details()->PackFrom(retry);
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue is full",
                          details.SerializeAsString());
    }
    *response = Response(request.request_id());
    return grpc::Status::OK;
  };
  const auto stream = Open();
  const Answer refused = stream->Send(Request("refused")).get();
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(Text(refused.status()), "queue is full");
  EXPECT_EQ(GetErrorDetails(refused.status()).retry_after, absl::Milliseconds(5));
  EXPECT_TRUE(stream->Send(Request("next")).get().ok());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ScoreStreamTest, UnsendableRequestsAreRefusedByTheClient) {
  AfterReading(1, [this](Stream* stream, const std::vector<std::string>& ids) {
    released_.WaitForNotification();
    stream->Write(Response(ids[0]));
    return Stall(stream);
  });
  options_.max_request_bytes = static_cast<int64_t>(Request("twin").ByteSizeLong());
  const auto stream = Open();
  std::future<Answer> first = stream->Send(Request("twin"));
  const Answer twin = stream->Send(Request("twin")).get();
  EXPECT_EQ(twin.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Text(twin.status()), HasSubstr("\"twin\" is in flight"));
  EXPECT_EQ(stream->Send(Request("twin5")).get().status().code(), Code::kResourceExhausted);
  released_.Notify();
  EXPECT_TRUE(first.get().ok()) << "the first one is not touched";
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_FALSE(client_->OpenStream({-1}).ok());
  EXPECT_FALSE(client_->OpenStream({65'537}).ok());
}

TEST_F(ScoreStreamTest, AWrongAnswerFailsItsRequestAlone) {
  const std::pair<std::string, std::function<void(v1::ScoreResponse*)>> cases[] = {
      {"results: 1 instead of 2", [](auto* r) { r->mutable_results()->RemoveLast(); }},
      {"results[0].candidates: 2 instead of 3",
       [](auto* r) { r->mutable_results(0)->mutable_candidates()->RemoveLast(); }},
      {"results[0]", [](auto* r) { r->mutable_results()->SwapElements(0, 1); }},
      {"results[1].candidates[1]",
       [](auto* r) { r->mutable_results(1)->mutable_candidates(1)->set_score(std::nanf("")); }},
      {"error without a code", [](auto* r) { r->mutable_error()->set_message("x"); }},
  };
  for (const auto& [found, corrupt] : cases) {
    SCOPED_TRACE(found);
    server_.score = [&corrupt = corrupt](grpc::ServerContext* /*context*/,
                                         const v1::ScoreRequest& request,
                                         v1::ScoreResponse* response) {
      *response = Response(request.request_id());
      if (request.request_id() == "corrupted") {
        corrupt(response);
      }
      return grpc::Status::OK;
    };
    const auto stream = Open();
    const Answer corrupted = stream->Send(Request("corrupted")).get();
    EXPECT_EQ(corrupted.status().code(), Code::kDataLoss);
    EXPECT_THAT(Text(corrupted.status()), HasSubstr(found));
    EXPECT_TRUE(stream->Send(Request("right")).get().ok());
    EXPECT_TRUE(stream->Finish().ok());
  }
}

// A message that belongs to no request makes all of the stream untrustworthy.
TEST_F(ScoreStreamTest, AWrongMessageEndsTheStreamWithATypedError) {
  const std::tuple<std::string, Code, std::function<grpc::Status(Stream*, std::string)>> cases[] = {
      {"that of no request in flight", Code::kDataLoss,
       [](Stream* stream, const std::string& /*id*/) {
         stream->Write(Response("nobody"));
         return Stall(stream);
       }},
      {"that of no request in flight", Code::kDataLoss,
       [](Stream* stream, const std::string& /*id*/) {
         stream->Write(v1::ScoreResponse());
         return Stall(stream);
       }},
      {"not a ScoreResponse", Code::kDataLoss,
       [](Stream* stream, const std::string& /*id*/) {
         v1::ScoreResponse response;
         response.set_request_id("\xff");  // not UTF-8, so it does not parse
         stream->Write(response);
         return Stall(stream);
       }},
      {"ended with 2 requests unanswered", Code::kDataLoss,
       [](Stream* /*stream*/, const std::string& /*id*/) { return grpc::Status::OK; }},
      {"shutting down", Code::kUnavailable,
       [](Stream* /*stream*/, const std::string& /*id*/) {
         return grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down");
       }},
  };
  for (const auto& [text, code, act] : cases) {
    SCOPED_TRACE(text);
    AfterReading(2, [act = act](Stream* stream, const std::vector<std::string>& ids) {
      return act(stream, ids.empty() ? "" : ids[0]);
    });
    const auto stream = Open();
    std::future<Answer> first = stream->Send(Request("a"));
    std::future<Answer> second = stream->Send(Request("b"));
    for (std::future<Answer>* future : {&first, &second}) {
      const Answer answer = future->get();
      EXPECT_EQ(answer.status().code(), code);
      EXPECT_THAT(Text(answer.status()), HasSubstr(text));
    }
    EXPECT_EQ(stream->Send(Request("c")).get().status().code(), code);
    EXPECT_EQ(stream->Finish().code(), code);
  }
}

TEST_F(ScoreStreamTest, ASecondAnswerIsNeverTakenForAnother) {
  AfterReading(2, [](Stream* stream, const std::vector<std::string>& ids) {
    stream->Write(Response(ids[0]));
    stream->Write(Response(ids[0]));
    stream->Write(Response(ids[1]));
    return Stall(stream);
  });
  const auto stream = Open();
  std::future<Answer> first = stream->Send(Request("a"));
  std::future<Answer> second = stream->Send(Request("b"));
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(second.get().status().code(), Code::kDataLoss);
  EXPECT_EQ(stream->Finish().code(), Code::kDataLoss);
}

TEST_F(ScoreStreamTest, AServerThatNeverAnswersOrNeverEndsIsEndedByTheDeadline) {
  options_.deadline = absl::Milliseconds(100);
  AfterReading(
      1, [](Stream* stream, const std::vector<std::string>& /*ids*/) { return Stall(stream); });
  {
    const auto stream = Open();
    EXPECT_EQ(stream->Send(Request("a")).get().status().code(), Code::kDeadlineExceeded);
    EXPECT_EQ(stream->Finish().code(), Code::kDeadlineExceeded);
  }
  server_.score_stream = [this](grpc::ServerContext* /*context*/, Stream* stream) {
    v1::ScoreRequest request;
    stream->Read(&request);
    stream->Write(Response(request.request_id()));
    released_.WaitForNotification();
    return grpc::Status::OK;
  };
  const auto stream = Open();
  std::future<Answer> answered = stream->Send(Request("a"));
  EXPECT_TRUE(answered.get().ok());
  EXPECT_EQ(stream->Finish().code(), Code::kDeadlineExceeded);
  released_.Notify();
}

TEST_F(ScoreStreamTest, CancelAnswersEveryRequestAndReachesTheServer) {
  Notification all_read;
  Notification gone;
  AfterReading(10, [&](Stream* stream, const std::vector<std::string>& /*ids*/) {
    all_read.Notify();
    grpc::Status status = Stall(stream);
    gone.Notify();
    return status;
  });
  const auto stream = Open();
  std::vector<std::future<Answer>> answers;
  answers.reserve(10);
  for (int i = 0; i < 10; ++i) {
    answers.push_back(stream->Send(Request(absl::StrCat(i))));
  }
  all_read.WaitForNotification();
  stream->Cancel();
  for (std::future<Answer>& future : answers) {
    EXPECT_EQ(future.get().status().code(), Code::kCancelled);
  }
  EXPECT_EQ(stream->Finish().code(), Code::kCancelled);
  gone.WaitForNotification();  // only the cancellation ends Stall's reading
}

TEST_F(ScoreStreamTest, TheDestructorWaitsForEveryCallback) {
  server_.score_stream = [](grpc::ServerContext* /*context*/, Stream* stream) {
    return Stall(stream);
  };
  int called = 0;
  {
    const auto stream = Open();
    for (int i = 0; i < 10; ++i) {
      stream->Send(Request(absl::StrCat(i)), [&called](const Answer& answer) {
        EXPECT_EQ(answer.status().code(), Code::kCancelled);
        ++called;
      });
    }
  }
  EXPECT_EQ(called, 10);
}

TEST_F(ScoreStreamTest, ADeadServerIsUnavailable) {
  {
    const FakeScorer gone;
    options_.target = gone.target();
  }
  const auto stream = Open();
  EXPECT_EQ(stream->Send(Request("a")).get().status().code(), Code::kUnavailable);
  EXPECT_EQ(client_->OpenStream().status().code(), Code::kUnavailable);
}

TEST_F(ScoreStreamTest, SendsInt64TokensAsInt32WhichEveryServerReads) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                     v1::ScoreResponse* response) {
    EXPECT_EQ(request.questions(0).prefix().raw(), std::string("\5\0\0\0\6\0\0\0", 8));
    EXPECT_EQ(request.questions(0).prefix().raw64(), "");
    *response = Response(request.request_id());
    return grpc::Status::OK;
  };
  const auto stream = Open();
  v1::ScoreRequest request = Request("int64");
  request.mutable_questions(0)->mutable_prefix()->Clear();
  request.mutable_questions(0)->mutable_prefix()->set_raw64(
      std::string("\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0", 16));
  const Answer answer = stream->Send(request).get();
  EXPECT_TRUE(answer.ok()) << answer.status();
  request.set_request_id("cut off");
  request.mutable_questions(0)->mutable_prefix()->set_raw64("1234567");
  EXPECT_EQ(stream->Send(request).get().status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(server_.num_calls(), 1);
}

// gRPC stops its threads with the last channel of the process, and crashes if that happens on one
// of them. No object of gRPC may therefore hold the channel when the owner of a stream continues.
TEST_F(ScoreStreamTest, NoThreadOfGrpcHoldsTheChannelOnceTheStreamIsGone) {
  constexpr int kRounds = 300;
  int still_held = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::shared_ptr<grpc::Channel> channel =
        grpc::CreateChannel(server_.target(), grpc::InsecureChannelCredentials());
    const std::weak_ptr<grpc::Channel> watched = channel;
    ScoreStream::Limits limits;
    limits.max_request_bytes = 1 << 20;
    limits.deadline = absl::Minutes(1);
    {
      ScoreStream stream(channel, limits);
      channel.reset();
      if (round % 2 == 0) {
        EXPECT_TRUE(stream.Send(Request("a")).get().ok());
        EXPECT_TRUE(stream.Finish().ok());
      }
    }
    still_held += watched.expired() ? 0 : 1;
  }
  EXPECT_EQ(still_held, 0);
}

}  // namespace
}  // namespace canopy::client
