// Requests like those of rollout workers, through the whole engine: many outputs in one forward,
// and a path that overflows float16. Run by conformance_test.sh, which makes the checkpoints first.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/model_runner.h"
#include "core/tree/path_batch.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"
#include "tests/conformance/checkpoint_engine.h"

namespace canopy {
namespace {

constexpr int64_t kOnePart = 1 << 20;

// Passes calls on and counts them.
class CountingRunner : public ModelRunner {
 public:
  CountingRunner(std::unique_ptr<ModelRunner> runner, int* forwards)
      : runner_(std::move(runner)), forwards_(*forwards) {}

  std::shared_ptr<const ModelInfo> info() const override { return runner_->info(); }
  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    ++forwards_;
    return runner_->Run(plan, outputs);
  }

 private:
  const std::unique_ptr<ModelRunner> runner_;
  int& forwards_;
};

// Returns `size` tokens below 310 that depend only on `seed`.
std::vector<int32_t> Tokens(int32_t seed, int32_t size) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(size));
  for (int32_t i = 0; i < size; ++i) {
    tokens.push_back((seed * 97 + i * 31 + i * i * 7) % 310);
  }
  return tokens;
}

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Compares within `tolerance`, relative to the largest element of `expected`.
void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 0;
  for (const float value : expected) {
    largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * largest) << what << " " << i;
  }
}

TEST(MixedRequestTest, TakesOneForwardAndGivesWhatEachOutputAloneDoes) {
  int forwards = 0;
  const auto engine =
      StartEngine(std::make_unique<CountingRunner>(
                      LoadRunner(CheckpointOptions("causal_reward_f32", "float32")), &forwards),
                  kOnePart);
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  batch->AddQuestion(Tokens(1, 40), {Tokens(2, 9), Tokens(3, 12), Tokens(4, 5)});
  batch->AddQuestion(Tokens(1, 40), {Tokens(5, 9), Tokens(6, 7)});
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
    const auto run = [&](const OutputSelection& outputs) {
      ScoreJob job;
      job.batch = batch;
      job.routing.backend = backend;
      job.outputs = outputs;
      forwards = 0;
      ScoreResult result = Ask(*engine, std::move(job));
      EXPECT_EQ(forwards, 1) << BackendName(backend);
      EXPECT_EQ(result.parts, 1);
      return result;
    };
    OutputSelection vectors;
    vectors.vectors = true;
    OutputSelection scores;
    scores.scores = true;
    OutputSelection logprobs;
    logprobs.token_logprobs = true;
    OutputSelection mixed;
    mixed.vectors = mixed.scores = mixed.token_logprobs = true;
    const ScoreResult all = run(mixed);
    const ScoreResult alone = run(vectors);
    EXPECT_EQ(all.computed_tokens, alone.computed_tokens);
    ExpectNear(Floats(all.vectors), Floats(alone.vectors), 1e-5, "vector");
    ExpectNear(all.scores, run(scores).scores, 1e-5, "score");
    ExpectNear(all.tokens.logprobs, run(logprobs).tokens.logprobs, 1e-5, "log-prob");
  }
}

// The embedding of this token drives a layer beyond the largest float16.
constexpr int32_t kOverflowToken = 310;

struct OverflowAnswers {
  ScoreResult with;     // candidate 1 of question 0 contains the token
  ScoreResult without;  // the same request without that candidate
};

OverflowAnswers AskWithAndWithout(Backend backend, const std::string& dtype) {
  const auto engine = StartEngine(LoadRunner(CheckpointOptions("overflow_f16", dtype)), kOnePart);
  const auto answer = [&](bool overflows) {
    std::vector<std::vector<int32_t>> candidates = {Tokens(2, 9), Tokens(4, 5)};
    if (overflows) {
      candidates.insert(candidates.begin() + 1, {5, kOverflowToken, 9});
    }
    auto batch = std::make_shared<PathBatch>();
    batch->question_offsets = {0};
    batch->AddQuestion(Tokens(1, 40), candidates);
    batch->AddQuestion(Tokens(7, 30), {Tokens(8, 6), Tokens(9, 4)});
    ScoreJob job;
    job.batch = batch;
    job.routing.backend = backend;
    job.outputs.vectors = job.outputs.scores = job.outputs.token_logprobs = true;
    job.outputs.values = true;
    return Ask(*engine, std::move(job));
  };
  return {answer(true), answer(false)};
}

// Returns the rows of `list` without those of path 1. `offsets` [paths + 1] delimit the rows of
// each path.
std::vector<float> WithoutPathOne(const std::vector<float>& list,
                                  const std::vector<int64_t>& offsets) {
  std::vector<float> rest(list.begin(), list.begin() + offsets[1]);
  rest.insert(rest.end(), list.begin() + offsets[2], list.end());
  return rest;
}

void ExpectNan(const std::vector<float>& list, int64_t begin, int64_t end) {
  EXPECT_LT(begin, end);
  for (int64_t i = begin; i < end; ++i) {
    EXPECT_TRUE(std::isnan(list[static_cast<size_t>(i)])) << i;
  }
}

TEST(Float16OverflowTest, LeavesOnePathUnscoredAndItsNeighboursAsWithoutIt) {
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
    SCOPED_TRACE(BackendName(backend));
    const auto [with, without] = AskWithAndWithout(backend, "float16");
    EXPECT_EQ(with.finite, (std::vector<uint8_t>{1, 0, 1, 1, 1}));
    EXPECT_EQ(without.finite, (std::vector<uint8_t>{1, 1, 1, 1}));
    EXPECT_EQ(with.route.reason == Reason::kNonFiniteRerun, backend != Backend::kPath);
    EXPECT_NE(without.route.reason, Reason::kNonFiniteRerun);
    const int64_t hidden = with.model->hidden_size;
    const std::vector<int64_t> rows = {0, hidden, 2 * hidden};
    const std::vector<float> vectors = Floats(with.vectors);
    ExpectNan(vectors, rows[1], rows[2]);
    ExpectNan(with.scores, 1, 2);
    const std::vector<int64_t>& tokens = with.tokens.entries.offsets;
    ExpectNan(with.tokens.logprobs, tokens[1], tokens[2]);
    const std::vector<int64_t>& values = with.values.entries.offsets;
    ExpectNan(with.values.values, values[1], values[2]);
    // The results differ by two roundings, because these paths ran again, alone.
    constexpr double kTolerance = 5e-3;
    ExpectNear(WithoutPathOne(vectors, rows), Floats(without.vectors), kTolerance, "vector");
    ExpectNear(WithoutPathOne(with.scores, {0, 1, 2}), without.scores, kTolerance, "score");
    ExpectNear(WithoutPathOne(with.tokens.logprobs, tokens), without.tokens.logprobs, kTolerance,
               "log-prob");
    ExpectNear(WithoutPathOne(with.values.values, values), without.values.values, kTolerance,
               "value");
  }
}

TEST(Float16OverflowTest, IsOneOfTheTypeAlone) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    const auto answers = AskWithAndWithout(Backend::kDense, dtype);
    EXPECT_EQ(answers.with.finite, (std::vector<uint8_t>{1, 1, 1, 1, 1})) << dtype;
  }
}

}  // namespace
}  // namespace canopy
