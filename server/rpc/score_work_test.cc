#include "server/rpc/score_work.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/stopwatch.h"
#include "canopy/v1/scorer.pb.h"
#include "core/engine/engine.h"
#include "gtest/gtest.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/service_context.h"
#include "server/telemetry/metrics.h"
#include "server/wire/message_bytes.h"
#include "tests/testing/fake_runner.h"
#include "tests/testing/gate.h"

namespace canopy::server {
namespace {

using testing::FakeRunner;
using testing::Gate;

// One request and its answer.
class Call {
 public:
  explicit Call(ServiceContext* context) : work_(context) {}

  // The encoding thread waits at `encoding`, which may be null, before it is free again. A closed
  // gate thus simulates an answer of any size.
  void Start(Engine* engine, Gate* encoding, uint32_t num_candidates = 2) {
    v1::ScoreRequest request;
    v1::Question* question = request.add_questions();
    question->mutable_prefix()->add_ids(1);
    for (uint32_t i = 0; i < num_candidates; ++i) {
      question->add_candidates()->mutable_tokens()->add_ids(2 + i);
    }
    const absl::Status started =
        work_.Start(engine, grpc::Slice(request.SerializeAsString()), {},
                    [this, encoding](absl::StatusOr<grpc::ByteBuffer> answer) {
                      answer_ = std::move(answer);
                      if (encoding != nullptr) {
                        encoding->WaitUntilOpen();
                      }
                      done_.Notify();
                    });
    ASSERT_TRUE(started.ok()) << started;
  }

  bool IsAnswered() const { return done_.HasBeenNotified(); }

  v1::Stats AwaitStats() {
    done_.WaitForNotification();
    EXPECT_TRUE(answer_.ok()) << answer_.status();
    v1::ScoreResponse response;
    EXPECT_TRUE(response.ParseFromString(std::string(ViewOf(SingleSlice(*answer_)))));
    return response.stats();
  }

  const ScoreWork& work() const { return work_; }

 private:
  ScoreWork work_;
  absl::StatusOr<grpc::ByteBuffer> answer_;
  Notification done_;
};

class ScoreWorkTest : public ::testing::Test {
 protected:
  void Start(int32_t encode_threads, int64_t large_answer_bytes = 1 << 20) {
    CallOptions limits;
    limits.encode_threads = encode_threads;
    limits.large_answer_bytes = large_answer_bytes;
    context_ = std::make_unique<ServiceContext>(limits, &gate_, &metrics_);
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<FakeRunner>());
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create({}, std::move(runners));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  CallGate gate_;
  Metrics metrics_{/*enabled=*/false};
  std::unique_ptr<ServiceContext> context_;
  std::unique_ptr<Engine> engine_;
  Gate encoding_;
};

TEST_F(ScoreWorkTest, SmallAnswersPassALargeOneThatIsEncoded) {
  Start(/*encode_threads=*/0);
  encoding_.Close();
  Call large(context_.get());
  large.Start(engine_.get(), &encoding_);
  encoding_.AwaitWaiter();
  for (int i = 0; i < 3; ++i) {
    Call small(context_.get());
    small.Start(engine_.get(), nullptr);
    small.AwaitStats();
  }
  EXPECT_FALSE(large.IsAnswered());
  encoding_.Open();
  large.AwaitStats();
}

TEST_F(ScoreWorkTest, WithOneEncodingThreadSmallAnswersWaitAndTheStatsShowIt) {
  Start(/*encode_threads=*/1);
  encoding_.Close();
  Call large(context_.get());
  large.Start(engine_.get(), &encoding_);
  encoding_.AwaitWaiter();
  Call small(context_.get());
  small.Start(engine_.get(), nullptr);
  // After the drain, the engine has answered.
  engine_->Drain();
  const Stopwatch waiting;
  EXPECT_FALSE(small.IsAnswered());
  const double min_ms = waiting.ElapsedMs();
  encoding_.Open();
  const v1::Stats stats = small.AwaitStats();
  EXPECT_GE(stats.encode_queue_ms(), min_ms);
  EXPECT_EQ(stats.encode_queue_ms(), small.work().observation()->encode_queue_ms);
  EXPECT_LE(stats.decode_ms() + stats.queue_ms() + stats.plan_ms() + stats.device_ms() +
                stats.encode_queue_ms() + stats.encode_ms(),
            stats.total_ms());
  large.AwaitStats();
}

TEST_F(ScoreWorkTest, LargeAnswersAreEncodedOneAtATimeAndHoldUpNoSmallOne) {
  Start(/*encode_threads=*/1, /*large_answer_bytes=*/1'000);
  encoding_.Close();
  std::vector<std::unique_ptr<Call>> large;
  for (int i = 0; i < 2; ++i) {
    large.push_back(std::make_unique<Call>(context_.get()));
    large.back()->Start(engine_.get(), &encoding_, /*num_candidates=*/20);
  }
  encoding_.AwaitWaiter();
  for (int i = 0; i < 3; ++i) {
    Call small(context_.get());
    small.Start(engine_.get(), nullptr);
    small.AwaitStats();
  }
  // Both requests have their results, and one of them waits for the other's encoding.
  engine_->Drain();
  EXPECT_EQ(encoding_.num_waiting(), 1);
  const Stopwatch waiting;
  EXPECT_FALSE(large[0]->IsAnswered() || large[1]->IsAnswered());
  const double min_ms = waiting.ElapsedMs();
  encoding_.Open();
  EXPECT_GE(
      std::max(large[0]->AwaitStats().encode_queue_ms(), large[1]->AwaitStats().encode_queue_ms()),
      min_ms);
}

TEST(EncodeThreadsTest, TheDefaultIsByTheCores) {
  EXPECT_GE(ServiceContext::NumEncodeThreads(0), 2);
  EXPECT_LE(ServiceContext::NumEncodeThreads(0), 4);
  EXPECT_EQ(ServiceContext::NumEncodeThreads(1), 1);
  EXPECT_EQ(ServiceContext::NumEncodeThreads(7), 7);
}

}  // namespace
}  // namespace canopy::server
