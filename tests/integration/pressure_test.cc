// Many calls at once to a real server: mass cancellations and deadlines, overload, and competing
// clients. The checks count events and do not measure times.
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using Code = grpc::StatusCode;

constexpr char kUnavailableCalls[] = "canopy_requests_total{code=\"UNAVAILABLE\",method=\"Score\"}";

v1::ScoreRequest RandomRequest(std::mt19937* random) {
  v1::ScoreRequest request;
  std::vector<std::vector<uint32_t>> candidates;
  for (uint32_t i = 0; i < 1 + (*random)() % 4; ++i) {
    candidates.push_back({static_cast<uint32_t>((*random)() % 900)});
  }
  AddQuestion(&request, std::vector<uint32_t>(1 + (*random)() % 30, 5), candidates);
  return request;
}

// Keeps a number of calls open until enough have ended.
class Crowd {
 public:
  using Prepare = std::function<void(grpc::ClientContext*, v1::ScoreRequest*)>;
  using AfterStart = std::function<void(const std::shared_ptr<grpc::ClientContext>&)>;

  Crowd(
      TestServer* server, Prepare prepare, AfterStart after_start = [](const auto&) {})
      : server_(*server), prepare_(std::move(prepare)), after_start_(std::move(after_start)) {}

  // Starts calls, `open` at a time, until `stop` returns true for the number of ended calls.
  void Run(int open, const std::function<bool(int64_t ended)>& stop) {
    while (true) {
      {
        MutexLock lock(&mutex_);
        const auto has_room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ < open; };
        mutex_.Await(Condition(&has_room));
        if (stop(ended_)) {
          break;
        }
      }
      Start();
    }
    AwaitAll();
  }

  void Start() {
    {
      MutexLock lock(&mutex_);
      ++open_;
    }
    auto call = std::make_shared<Call>();
    prepare_(&call->context, &call->request);
    // A pointer, because gRPC copies what the callback captures where ThreadSanitizer does not see
    // it.
    auto* held = new std::shared_ptr<Call>(call);
    HandOver(held);
    server_.stub().async()->Score(&call->context, &call->request, &call->response,
                                  [this, held](const grpc::Status& status) {
                                    TakeOver(held);
                                    EXPECT_EQ(++(*held)->ends, 1) << "answered twice";
                                    // The call holds the channel, whose last user must not be
                                    // gRPC's own thread.
                                    delete held;
                                    MutexLock lock(&mutex_);
                                    --open_;
                                    ++ended_;
                                    ++codes_[status.error_code()];
                                  });
    after_start_({call, &call->context});
  }

  void AwaitAll() {
    MutexLock lock(&mutex_);
    const auto is_empty = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ == 0; };
    mutex_.Await(Condition(&is_empty));
  }

  void AwaitOpen(int open) {
    MutexLock lock(&mutex_);
    const auto is_open = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_ == open; };
    mutex_.Await(Condition(&is_open));
  }

  std::map<Code, int64_t> codes() {
    MutexLock lock(&mutex_);
    return codes_;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    v1::ScoreResponse response;
    std::atomic<int> ends{0};
  };

  TestServer& server_;
  const Prepare prepare_;
  const AfterStart after_start_;
  Mutex mutex_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Code, int64_t> codes_ ABSL_GUARDED_BY(mutex_);
};

class PressureTest : public ::testing::Test {
 protected:
  void Start(const std::function<void(server::ServerOptions*)>& change = {}) {
    server::ServerOptions options = FakeServerOptions();
    options.metrics_listen = "127.0.0.1:0";
    if (change) {
      change(&options);
    }
    server_ = std::make_unique<TestServer>(options);
  }

  // Checks that nothing is left in progress, and that every accepted request ended exactly once.
  void ExpectConsistentTotals() {
    const std::string address = server_->server().metrics_address();
    AwaitMetric(address, "canopy_requests_in_flight{method=\"Score\"}", 0);
    const std::string page = Scrape(address);
    double ended = 0;
    for (const char* outcome : {"answered", "displaced", "expired", "cancelled"}) {
      ended +=
          MetricValue(page, absl::StrCat("canopy_ended_requests_total{outcome=\"", outcome, "\"}"));
    }
    EXPECT_EQ(MetricValue(page, "canopy_accepted_requests_total"), ended);
    EXPECT_EQ(MetricValue(page, kQueuedRequests), 0);
    EXPECT_EQ(MetricValue(page, "canopy_queued_tokens"), 0);
  }

  std::unique_ptr<TestServer> server_;
};

TEST_F(PressureTest, TenThousandCancellationsAtAnyInstant) {
  Start();
  std::mt19937 random(11);
  // Each call is cancelled when a few others were started after it, in whatever state it then is.
  std::deque<std::shared_ptr<grpc::ClientContext>> open;
  int64_t cancelled = 0;
  Crowd crowd(
      server_.get(),
      [&](grpc::ClientContext* context, v1::ScoreRequest* request) {
        SetTestDeadline(context);
        *request = RandomRequest(&random);
      },
      [&](const std::shared_ptr<grpc::ClientContext>& context) {
        open.push_back(context);
        while (open.size() > random() % 60) {
          open.front()->TryCancel();
          open.pop_front();
          ++cancelled;
        }
      });
  crowd.Run(100, [&](int64_t) { return cancelled >= 10'000; });
  const std::map<Code, int64_t> codes = crowd.codes();
  for (const auto& [code, count] : codes) {
    EXPECT_TRUE(code == Code::OK || code == Code::CANCELLED) << code << ": " << count;
  }
  ExpectConsistentTotals();
  v1::ScoreResponse response;
  EXPECT_TRUE(server_->Score(RandomRequest(&random), &response).ok());
}

TEST_F(PressureTest, DeadlinesOfEveryLength) {
  Start();
  std::mt19937 random(12);
  // On a slow machine all calls may end before the server has seen them, and then it has counted
  // nothing.
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server_->Score(RandomRequest(&random), &response)));
  Crowd crowd(server_.get(), [&](grpc::ClientContext* context, v1::ScoreRequest* request) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::microseconds(static_cast<int>(random() % 8'000) - 500));
    *request = RandomRequest(&random);
  });
  crowd.Run(200, [](int64_t ended) { return ended >= 10'000; });
  for (const auto& [code, count] : crowd.codes()) {
    EXPECT_TRUE(code == Code::OK || code == Code::DEADLINE_EXCEEDED ||
                code == Code::RESOURCE_EXHAUSTED)
        << code << ": " << count;
  }
  ExpectConsistentTotals();
}

// Ten times as many calls arrive as the device can run, and each waits for at most a second. The
// device must work for callers that still wait. A queue that serves the oldest call first would
// answer every one of them a little too late.
TEST_F(PressureTest, UnderOverloadTheDeviceWorksForCallersThatStillWait) {
  Start([](server::ServerOptions* options) {
    options->engine.scheduler.max_queued_requests = 1'000;
  });
  server_->controls().gate.Close();
  server_->controls().Pace(absl::Milliseconds(5));
  std::mt19937 random(13);
  Crowd crowd(server_.get(), [&](grpc::ClientContext* context, v1::ScoreRequest* request) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    *request = RandomRequest(&random);
  });
  for (int forward = 0; forward < 400; ++forward) {
    for (int call = 0; call < 10; ++call) {
      crowd.Start();
    }
    server_->controls().gate.AdmitOne();
    server_->controls().gate.AwaitWaiter();
  }
  server_->controls().gate.Open();
  crowd.AwaitAll();
  const std::string page = Scrape(server_->server().metrics_address());
  const double answered = MetricValue(page, "canopy_ended_requests_total{outcome=\"answered\"}");
  EXPECT_GE(answered, 0.9 * static_cast<double>(server_->controls().forwards()));
  EXPECT_GT(crowd.codes()[Code::RESOURCE_EXHAUSTED], 1'000) << "it was no overload";
  ExpectConsistentTotals();
  v1::ScoreResponse response;
  EXPECT_TRUE(server_->Score(RandomRequest(&random), &response).ok());
}

// The queue is full when the drain begins. Accepted requests are answered, all others are refused,
// and the counts agree on both sides.
TEST_F(PressureTest, ADrainUnderOverloadLosesNothing) {
  Start([](server::ServerOptions* options) { options->engine.scheduler.max_queued_requests = 20; });
  server_->controls().gate.Close();
  std::mt19937 random(15);
  Crowd crowd(server_.get(), [&](grpc::ClientContext* context, v1::ScoreRequest* request) {
    SetTestDeadline(context);
    *request = RandomRequest(&random);
  });
  crowd.Start();
  server_->controls().gate.AwaitWaiter();
  for (int i = 0; i < 200; ++i) {
    crowd.Start();
  }
  const std::string address = server_->server().metrics_address();
  AwaitMetric(address, kQueuedRequests, 20);
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return server_->server().Drain(absl::Minutes(5)); });
  // Until the drain has begun, each of these requests exceeds the queue.
  do {
    crowd.Start();
  } while (MetricValue(Scrape(address), kUnavailableCalls) < 1);
  crowd.AwaitOpen(21);  // the accepted requests; one of them is on the device
  server_->controls().gate.Open();
  EXPECT_TRUE(drained.get());
  crowd.AwaitAll();
  ExpectConsistentTotals();
  const std::map<Code, int64_t> codes = crowd.codes();
  for (const auto& [code, count] : codes) {
    EXPECT_TRUE(code == Code::OK || code == Code::RESOURCE_EXHAUSTED || code == Code::UNAVAILABLE)
        << code << ": " << count;
  }
  const std::string page = Scrape(address);
  EXPECT_EQ(MetricValue(page, "canopy_ended_requests_total{outcome=\"answered\"}"),
            codes.at(Code::OK));
  EXPECT_EQ(MetricValue(page, "canopy_accepted_requests_total"), codes.at(Code::OK));
}

// One connection has a long backlog, another sends one call at a time.
TEST_F(PressureTest, AGreedyConnectionDoesNotDelayAnother) {
  Start([](server::ServerOptions* options) { options->engine.scheduler.max_queued_requests = 50; });
  server_->controls().gate.Close();
  std::mt19937 random(14);
  const v1::ScoreRequest request = RandomRequest(&random);
  struct Call {
    grpc::ClientContext context;
    v1::ScoreResponse response;
  };
  std::vector<std::unique_ptr<Call>> calls;
  Mutex mutex;
  int open = 0;
  const auto call_greedily = [&] {
    calls.push_back(std::make_unique<Call>());
    SetTestDeadline(&calls.back()->context);
    {
      MutexLock lock(&mutex);
      ++open;
    }
    server_->stub().async()->Score(&calls.back()->context, &request, &calls.back()->response,
                                   [&](const grpc::Status& /*status*/) {
                                     MutexLock lock(&mutex);
                                     --open;
                                   });
  };
  call_greedily();
  server_->controls().gate.AwaitWaiter();
  for (int i = 0; i < 60; ++i) {
    call_greedily();
  }
  AwaitMetric(server_->server().metrics_address(), kQueuedRequests, 50);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(server_->server().address(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::Scorer::NewStub(channel);
  grpc::ClientContext context;
  SetTestDeadline(&context);
  v1::ScoreResponse response;
  Notification done;
  grpc::Status modest;
  stub->async()->Score(&context, &request, &response, [&](grpc::Status status) {
    modest = std::move(status);
    done.Notify();
  });
  // The new request displaces one of the fifty.
  AwaitMetric(server_->server().metrics_address(),
              "canopy_ended_requests_total{outcome=\"displaced\"}", 1);
  // It also goes before the others: it is answered while the fifth forward is blocked.
  for (int forward = 0; forward < 4; ++forward) {
    server_->controls().gate.AdmitOne();
    server_->controls().gate.AwaitWaiter();
  }
  done.WaitForNotification();
  EXPECT_TRUE(modest.ok()) << modest.error_message();
  server_->controls().gate.Open();
  MutexLock lock(&mutex);
  const auto all_ended = [&] { return open == 0; };
  mutex.Await(Condition(&all_ended));
}

}  // namespace
}  // namespace canopy::testing
