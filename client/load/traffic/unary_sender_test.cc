// Tests calls one by one against an in-process server: how they end, and on which thread.
#include "client/load/traffic/unary_sender.h"

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/load/traffic/testing/hash_scorer.h"
#include "client/testing/fake_scorer.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

// When the last channel is destroyed, gRPC stops its callback threads, and it crashes if this
// happens on one of those threads. The sender ends calls on its own threads and destroys its
// channels in its destructor, so a thread of gRPC never destroys a channel. In this test the sender
// is the only client of the process, and all of its connections are cut.
TEST(UnarySenderTest, CallsEndOnTheSendersOwnThreadsAlsoWhenConnectionsAreCut) {
  constexpr int kRounds = 50;
  constexpr int kCalls = 8;
  constexpr int kLanes = 2;
  FakeScorer server;
  server.score = [](grpc::ServerContext* context, const v1::ScoreRequest& request,
                    v1::ScoreResponse* response) {
    while (!context->IsCancelled()) {
      std::this_thread::yield();
    }
    *response = HashAnswer(request);
    return grpc::Status::OK;
  };
  PooledRequest request;
  request.request.add_questions()->add_candidates()->mutable_tokens()->add_ids(1);
  request.bytes = request.request.SerializeAsString();
  SenderOptions options;
  options.targets = {{server.target(), 1}};
  options.client.target = server.target();
  options.client.max_attempts = 1;
  options.lanes = kLanes;
  options.kills = true;
  for (int round = 0; round < kRounds; ++round) {
    BlockingCounter left(kCalls);
    Mutex mutex;
    std::set<std::thread::id> threads;
    int killed = 0;
    UnarySender sender(options,
                       {[&](int /*lane*/, std::unique_ptr<LoadCall> /*call*/, const CallEnd& end) {
                          {
                            MutexLock lock(&mutex);
                            threads.insert(std::this_thread::get_id());
                            killed += end.given_up == CallOutcome::kKilled ? 1 : 0;
                          }
                          left.DecrementCount();
                        },
                        [](size_t /*target*/, absl::string_view /*problem*/) {}});
    for (uint64_t id = 0; id < kCalls; ++id) {
      auto call = std::make_unique<LoadCall>();
      call->id = id;
      call->request = &request;
      call->request_id = LoadRequestId(id);
      call->planned_outcome = CallOutcome::kKilled;
      call->time_left = absl::Minutes(1);
      sender.Send(std::move(call));
      sender.Abandon(id);
    }
    left.Wait();
    sender.Close();
    EXPECT_EQ(killed, kCalls);
    EXPECT_LE(threads.size(), kLanes);
    EXPECT_EQ(threads.count(std::this_thread::get_id()), 0U);
  }
}

}  // namespace
}  // namespace canopy::client
