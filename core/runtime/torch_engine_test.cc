// The engine with LibTorch on a CPU, as in production and with equivalents of the fused backend's
// kernels: requests that share a forward, and memory that runs out at any allocation.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_details.h"
#include "c10/core/CPUAllocator.h"
#include "c10/util/Exception.h"
#include "core/checkpoint/testing/test_files.h"
#include "core/engine/engine.h"
#include "core/engine/model_runner.h"
#include "core/ops/testing/reference_kernel_ops.h"
#include "core/runtime/torch_runner.h"
#include "core/tree/path_batch.h"
#include "core/tree/route_costs.h"
#include "gtest/gtest.h"
#include "tests/testing/answer.h"
#include "tests/testing/gate.h"
#include "tests/testing/routed_runner.h"

namespace canopy {
namespace {

constexpr int32_t kVocabulary = 29;

constexpr absl::string_view kConfig = R"({
  "architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3", "num_labels": 1,
  "vocab_size": 29, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu",
  "max_position_embeddings": 300, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "attention_bias": false})";

// Passes calls to LibTorch's own allocator, but refuses from the `first`-th allocation after Arm
// on.
class FailingAllocator final : public at::Allocator {
 public:
  static FailingAllocator& Get() {
    static auto* allocator = new FailingAllocator;
    return *allocator;
  }

  at::DataPtr allocate(size_t size) override {
    const int64_t index = allocations_.fetch_add(1);
    largest_ = std::max<int64_t>(largest_, static_cast<int64_t>(size));
    TORCH_CHECK((index < first_ || index >= end_) && static_cast<int64_t>(size) <= max_size_,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", size,
                " bytes.");
    return below_->allocate(size);
  }
  at::DeleterFnPtr raw_deleter() const override { return below_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }

  void Arm(int64_t first, int64_t count) {
    first_ = allocations_ + first;
    end_ = first_ + count;
  }
  int64_t allocations() const { return allocations_; }

  // Refuses allocations of more bytes.
  void LimitSize(int64_t max_size) { max_size_ = max_size; }
  // Returns the largest allocation since the last call.
  int64_t TakeLargest() { return largest_.exchange(0); }

 private:
  FailingAllocator() : below_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 255); }

  at::Allocator* const below_;
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> first_{0};
  std::atomic<int64_t> end_{0};
  std::atomic<int64_t> largest_{0};
  std::atomic<int64_t> max_size_{int64_t{1} << 60};
};

const RouteCosts kCosts = {{{Backend::kPath, {1, 0, 1, 0}},
                            {Backend::kDense, {1, 0, 0.9, 0}},
                            {Backend::kSegmented, {1, 1, 0.9, 0}},
                            {Backend::kFused, {1, 0, 0.5, 0}}}};

// The parameter is whether the fused backend runs.
class TorchEngineTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    FailingAllocator::Get();
    folder_.Write("config.json", kConfig);
    TorchRunnerOptions options;
    options.source.name = "ranker";
    options.source.source = absl::StrCat("synthetic:", folder_.Join("config.json"));
    options.model.device = "cpu";
    options.model.dtype = "float32";
    options.model.threads = 1;
    if (GetParam()) {
      options.kernels = ReferenceKernels();
    }
    auto runner = LoadTorchRunner(options);
    ASSERT_TRUE(runner.ok()) << runner.status();
    ASSERT_EQ((*runner)->info()->fused_supported, GetParam()) << (*runner)->info()->fused_reason;
    std::vector<std::unique_ptr<ModelRunner>> runners;
    runners.push_back(std::make_unique<testing::RoutedRunner>(*std::move(runner), kCosts, &gate_));
    Engine::Options engine_options;
    engine_options.scheduler.max_batch_tokens = 256;
    auto engine = Engine::Create(engine_options, std::move(runners));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::vector<int32_t> Tokens(int count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    std::generate(tokens.begin(), tokens.end(),
                  [this] { return static_cast<int32_t>(random_() % kVocabulary); });
    return tokens;
  }

  // Returns two questions with three candidates after `state` and some tokens of their own.
  std::shared_ptr<const PathBatch> Batch(const std::vector<int32_t>& state) {
    auto batch = std::make_shared<PathBatch>();
    for (int question = 0; question < 2; ++question) {
      std::vector<int32_t> prefix = state;
      for (const int32_t token : Tokens(3)) {
        prefix.push_back(token);
      }
      batch->AddQuestion(prefix, {Tokens(4), Tokens(2), Tokens(5)});
    }
    return batch;
  }

  std::unique_ptr<testing::Answer> Submit(std::shared_ptr<const PathBatch> batch,
                                          Backend backend = Backend::kAuto) {
    auto call = std::make_unique<testing::Answer>();
    ScoreJob job;
    job.batch = std::move(batch);
    job.outputs.scores = true;
    job.routing.backend = backend;
    const absl::Status submitted = engine_->Submit(std::move(job), call->callback());
    EXPECT_TRUE(submitted.ok()) << submitted;
    return call;
  }

  std::vector<float> PathScores(const std::shared_ptr<const PathBatch>& batch) {
    const auto call = Submit(batch, Backend::kPath);
    EXPECT_TRUE(call->Await().ok()) << call->result.status();
    return call->result->scores;
  }

  static void ExpectNear(const std::vector<float>& scores, const std::vector<float>& expected) {
    ASSERT_EQ(scores.size(), expected.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_NEAR(scores[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << "path " << i;
    }
  }

  const TemporaryFolder folder_;
  testing::Gate gate_;
  std::mt19937 random_{20'261'130};
  std::unique_ptr<Engine> engine_;
};

TEST_P(TorchEngineTest, UnderTheMeasuredPolicyRequestsShareEqualPrefixes) {
  const std::vector<int32_t> state = Tokens(40);
  const auto first_batch = Batch(state);
  const auto second_batch = Batch(state);
  const std::vector<float> first_scores = PathScores(first_batch);
  const std::vector<float> second_scores = PathScores(second_batch);
  const auto alone = Submit(second_batch);
  ASSERT_TRUE(alone->Await().ok()) << alone->result.status();
  EXPECT_EQ(alone->result->batch_requests, 1);

  gate_.Close();
  const auto occupant = Submit(Batch({}), Backend::kPath);
  gate_.AwaitWaiter();
  const auto first = Submit(first_batch);
  const auto second = Submit(second_batch);
  gate_.Open();
  for (testing::Answer* call : {first.get(), second.get()}) {
    ASSERT_TRUE(call->Await().ok()) << call->result.status();
    EXPECT_EQ(call->result->batch_requests, 2);
    EXPECT_EQ(call->result->route.backend, GetParam() ? Backend::kFused : Backend::kDense);
    EXPECT_EQ(call->result->route.layout, Layout::kFlat);
    EXPECT_EQ(call->result->route.policy, Policy::kMeasured);
    EXPECT_EQ(call->result->route.reason, Reason::kMeasured);
  }
  ExpectNear(first->result->scores, first_scores);
  ExpectNear(second->result->scores, second_scores);
  ExpectNear(alone->result->scores, second_scores);
  EXPECT_LE(second->result->computed_tokens, alone->result->computed_tokens - 40)
      << "the state's rows are the first request's";
}

TEST_P(TorchEngineTest, ASizeThatDoesNotFitIsNotTriedAgain) {
  FailingAllocator& allocator = FailingAllocator::Get();
  auto batch = std::make_shared<PathBatch>();
  for (int question = 0; question < 6; ++question) {
    batch->AddQuestion(Tokens(20), {Tokens(4), Tokens(5), Tokens(6)});
  }
  const std::vector<float> expected = PathScores(batch);
  for (const Backend backend : {Backend::kDense, Backend::kPath}) {
    allocator.TakeLargest();
    ASSERT_TRUE(Submit(batch, backend)->Await().ok());
    allocator.LimitSize(allocator.TakeLargest() - 1);
    int64_t failed = engine_->stats().out_of_memory_forwards;
    for (const bool first : {true, false}) {
      const auto call = Submit(batch, backend);
      ASSERT_TRUE(call->Await().ok()) << call->result.status();
      ExpectNear(call->result->scores, expected);
      EXPECT_EQ(call->result->route.reason == Reason::kOutOfMemory, first) << BackendName(backend);
      EXPECT_EQ(engine_->stats().out_of_memory_forwards > failed, first) << BackendName(backend);
      failed = engine_->stats().out_of_memory_forwards;
    }
    allocator.LimitSize(int64_t{1} << 60);
    // Each backend starts without the limit that another backend has learned.
    ASSERT_NO_FATAL_FAILURE(SetUp());
  }
}

TEST_P(TorchEngineTest, MemoryThatRunsOutAtAnyAllocationLosesNothing) {
  const std::vector<int32_t> state = Tokens(20);
  const std::vector<std::shared_ptr<const PathBatch>> batches = {Batch(state), Batch(state),
                                                                 Batch(Tokens(9)), Batch(state)};
  const std::vector<Backend> backends = {Backend::kAuto, Backend::kAuto, Backend::kDense,
                                         Backend::kSegmented};
  std::vector<std::vector<float>> expected;
  expected.reserve(batches.size());
  for (const auto& batch : batches) {
    expected.push_back(PathScores(batch));
  }
  // Runs all requests and returns how many failed.
  const auto run = [&](int64_t first, int64_t count) {
    gate_.Close();
    const auto occupant = Submit(batches[0], Backend::kPath);
    gate_.AwaitWaiter();
    std::vector<std::unique_ptr<testing::Answer>> calls;
    calls.reserve(batches.size());
    for (size_t i = 0; i < batches.size(); ++i) {
      calls.push_back(Submit(batches[i], backends[i]));
    }
    FailingAllocator::Get().Arm(first, count);
    gate_.Open();
    int failed = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const absl::StatusOr<ScoreResult>& result = calls[i]->Await();
      if (result.ok()) {
        ExpectNear(result->scores, expected[i]);
      } else {
        ++failed;
        EXPECT_TRUE(absl::IsResourceExhausted(result.status())) << result.status();
        EXPECT_EQ(ErrorReasonName(result.status()), "PATH_TOO_LARGE_FOR_DEVICE");
      }
    }
    occupant->answered.WaitForNotification();
    FailingAllocator::Get().Arm(0, 0);
    return failed;
  };
  const int64_t before = FailingAllocator::Get().allocations();
  EXPECT_EQ(run(0, 0), 0);
  const int64_t allocations = FailingAllocator::Get().allocations() - before;
  ASSERT_GT(allocations, 50) << "the allocator is not in use";
  const int64_t step = std::max<int64_t>(allocations / 150, 1);
  for (int64_t first = 0; first < allocations; first += step) {
    SCOPED_TRACE(absl::StrCat("allocation ", first, " of ", allocations));
    EXPECT_EQ(run(first, 1), 0) << "one failure is made good by smaller forwards";
  }
  for (int64_t first = 0; first < allocations; first += 10 * step) {
    SCOPED_TRACE(absl::StrCat("from allocation ", first, " of ", allocations, " on"));
    EXPECT_GT(run(first, int64_t{1} << 40), 0);
    EXPECT_TRUE(engine_->healthy());
  }
  EXPECT_EQ(run(0, 0), 0);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutFused, TorchEngineTest, ::testing::Bool());

}  // namespace
}  // namespace canopy
