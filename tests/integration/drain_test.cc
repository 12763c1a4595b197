// A server that stops while many clients keep sending. Checks the clients' results, and that both
// sides count the same.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/channel_arguments.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using Code = grpc::StatusCode;

constexpr int kRounds = 20;
constexpr int kConnections = 8;
constexpr int kCallsAtATime = 4;  // per connection

// Returns a connection that no other channel of this process shares.
std::unique_ptr<v1::Scorer::Stub> OwnConnection(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::Scorer::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

v1::ScoreRequest SmallRequest() {
  v1::ScoreRequest request;
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  return request;
}

// Sends one call after the other, whether answered or refused, until the server is gone.
class CallLoop {
 public:
  explicit CallLoop(const std::string& address) : stub_(OwnConnection(address)) {
    for (int i = 0; i < kCallsAtATime; ++i) {
      Start();
    }
  }

  void AwaitAnswers() {
    MutexLock lock(&mutex_);
    const auto answered = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return codes_[Code::OK] >= kCallsAtATime;
    };
    mutex_.Await(Condition(&answered));
  }

  // Returns the number of calls that ended with each code.
  std::map<Code, int64_t> AwaitEnd() {
    MutexLock lock(&mutex_);
    const auto is_idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ == 0; };
    mutex_.Await(Condition(&is_idle));
    return codes_;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::ScoreResponse response;
  };

  void Start() {
    {
      MutexLock lock(&mutex_);
      ++open_;
    }
    auto* call = new Call;
    SetTestDeadline(&call->context);
    HandOver(call);
    stub_->async()->Score(&call->context, &request_, &call->response,
                          [this, call](const grpc::Status& status) {
                            TakeOver(call);
                            // The call holds the channel, which must not be destroyed on a thread
                            // of gRPC.
                            delete call;
                            // gRPC's own errors have no details.
                            if (status.ok() || !status.error_details().empty()) {
                              Start();
                            }
                            MutexLock lock(&mutex_);
                            --open_;
                            ++codes_[status.error_code()];
                          });
  }

  const v1::ScoreRequest request_ = SmallRequest();
  const std::unique_ptr<v1::Scorer::Stub> stub_;
  Mutex mutex_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Code, int64_t> codes_ ABSL_GUARDED_BY(mutex_);
};

// A ScoreStream that sends the next request when the one before is answered, until it ends.
class Stream {
 public:
  explicit Stream(const std::string& address)
      : stub_(OwnConnection(address)), thread_([this] { Run(); }) {}

  void AwaitAnswer() { answered_once_.WaitForNotification(); }

  // Returns the number of requests that were answered with results.
  int64_t AwaitEnd() {
    thread_.join();
    return answered_;
  }

  // Precondition: AwaitEnd has returned.
  const grpc::Status& status() const { return status_; }

 private:
  void Run() {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    const auto stream = stub_->ScoreStream(&context);
    v1::ScoreRequest request = SmallRequest();
    request.set_request_id("one at a time");
    v1::ScoreResponse response;
    while (stream->Write(request) && stream->Read(&response)) {
      if (!response.has_error() && ++answered_ == 1) {
        answered_once_.Notify();
      }
    }
    status_ = stream->Finish();
  }

  const std::unique_ptr<v1::Scorer::Stub> stub_;
  Notification answered_once_;
  int64_t answered_ = 0;
  grpc::Status status_;
  std::thread thread_;  // last, because it uses everything above
};

// Watches the server's readiness and records each reported value until the watch ends.
class HealthWatch {
 public:
  explicit HealthWatch(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(channel), thread_([this] { Run(); }) {}

  void AwaitFirst() { watching_.WaitForNotification(); }
  Code AwaitEnd() {
    thread_.join();
    return status_.error_code();
  }

 private:
  void Run() {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    grpc::CompletionQueue queue;
    const auto await = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto stream = stub_.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
    stream->StartCall(nullptr);
    await();
    const grpc::Slice everything("");
    stream->WriteLast(grpc::ByteBuffer(&everything, 1), grpc::WriteOptions(), nullptr);
    await();
    bool is_first = true;
    for (bool ok = true; ok; is_first = false) {
      grpc::ByteBuffer health;
      stream->Read(&health, nullptr);
      ok = await();
      if (is_first) {
        watching_.Notify();
      }
    }
    stream->Finish(&status_, nullptr);
    await();
  }

  grpc::GenericStub stub_;
  Notification watching_;
  grpc::Status status_;
  std::thread thread_;  // last, because it uses everything above
};

TEST(DrainTest, AnswersWhatItAcceptedAndNeverSaysThatAClientCancelled) {
  for (int round = 0; round < kRounds; ++round) {
    server::ServerOptions options = FakeServerOptions();
    options.metrics_listen = "127.0.0.1:0";
    TestServer server(options);
    // The pace makes many requests wait when the drain begins.
    server.controls().Pace(absl::Microseconds(500));
    std::vector<std::unique_ptr<CallLoop>> loops;
    loops.reserve(kConnections);
    for (int i = 0; i < kConnections; ++i) {
      loops.push_back(std::make_unique<CallLoop>(server.server().address()));
    }
    Stream stream(server.server().address());
    HealthWatch watch(server.channel());
    for (const auto& loop : loops) {
      loop->AwaitAnswers();
    }
    stream.AwaitAnswer();
    watch.AwaitFirst();
    EXPECT_TRUE(server.server().Drain(absl::Minutes(5)));
    std::map<Code, int64_t> codes;
    for (const auto& loop : loops) {
      for (const auto& [code, count] : loop->AwaitEnd()) {
        EXPECT_TRUE(code == Code::OK || code == Code::UNAVAILABLE) << code << ": " << count;
        codes[code] += count;
      }
    }
    EXPECT_EQ(watch.AwaitEnd(), Code::UNAVAILABLE);
    const int64_t answered = codes[Code::OK] + stream.AwaitEnd();
    EXPECT_EQ(stream.status().error_code(), Code::UNAVAILABLE);
    const auto info = FindDetail<google::rpc::ErrorInfo>(stream.status());
    ASSERT_NE(info, nullptr) << stream.status().error_message();
    EXPECT_EQ(info->reason(), "DRAINING");
    const std::string page = Scrape(server.server().metrics_address());
    EXPECT_EQ(MetricValue(page, "canopy_accepted_requests_total"), answered);
    EXPECT_EQ(MetricValue(page, "canopy_ended_requests_total{outcome=\"answered\"}"), answered);
  }
}

}  // namespace
}  // namespace canopy::testing
