// Compares every output of every checkpoint on every backend, in float32 and in the 16-bit type of
// the checkpoint, with the results of PyTorch for each path alone. Run by conformance_test.sh,
// which first makes the checkpoints below the test's temporary folder.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/checkpoint_engine.h"
#include "tests/conformance/reference_cases.h"
#include "tests/testing/gate.h"
#include "tests/testing/routed_runner.h"
#include "tests/testing/test_device.h"

namespace canopy {
namespace {

// The tolerances are those of docs/adr/0005-tolerances.md.
constexpr double kMaxFloat32Error = 1e-4;
constexpr double kMaxHalfErrorRatio = 1.25;
constexpr size_t kMinHalfCandidates = 256;

// Options of a request that the references contain in two variants.
struct Reading {
  TokenScope scope;
  float temperature;
  bool normalize;
};
constexpr Reading kCandidates = {TokenScope::kCandidate, kSecondTemperature, false};
constexpr Reading kWholePaths = {TokenScope::kPath, 1, true};

struct ParityRoute {
  const char* name;
  Backend backend;
  Packing packing;
  int64_t max_batch_tokens;
  std::vector<Reading> readings;
};

constexpr int64_t kOnePart = 1 << 20;
// The longest path has 256 tokens, so every case runs in many parts.
constexpr int64_t kManyParts = 300;

// A new backend needs two entries here: one in a single part, and one in many parts, for which a
// single reading is enough.
const std::vector<ParityRoute>& Routes() {
  static const auto* const routes = new std::vector<ParityRoute>{
      {"path", Backend::kPath, Packing::kAuto, kOnePart, {kCandidates, kWholePaths}},
      {"dense", Backend::kDense, Packing::kAuto, kOnePart, {kCandidates, kWholePaths}},
      {"dense_padded", Backend::kDense, Packing::kPadded, kOnePart, {kCandidates, kWholePaths}},
      {"segmented", Backend::kSegmented, Packing::kAuto, kOnePart, {kCandidates, kWholePaths}},
      {"segmented_padded", Backend::kSegmented, Packing::kPadded, kOnePart, {kWholePaths}},
      {"fused", Backend::kFused, Packing::kAuto, kOnePart, {kCandidates, kWholePaths}},
      {"auto", Backend::kAuto, Packing::kAuto, kOnePart, {kCandidates}},
      {"path_in_parts", Backend::kPath, Packing::kAuto, kManyParts, {kCandidates}},
      {"dense_in_parts", Backend::kDense, Packing::kAuto, kManyParts, {kWholePaths}},
      {"segmented_in_parts", Backend::kSegmented, Packing::kPadded, kManyParts, {kCandidates}},
      {"fused_in_parts", Backend::kFused, Packing::kAuto, kManyParts, {kWholePaths}},
  };
  return *routes;
}

bool Runs(const ModelInfo& model, Backend backend) {
  if (backend == Backend::kFused) {
    return model.fused_supported;
  }
  return model.tree_supported || backend == Backend::kPath || backend == Backend::kAuto;
}

// Requests all outputs at once.
ScoreJob JobFor(const ReferenceCase& item, const ParityRoute& route, const Reading& reading) {
  const ReferenceOutputs& exact = item.exact;
  ScoreJob job;
  job.batch = item.batch;
  job.routing.backend = route.backend;
  job.routing.packing = route.packing;
  job.outputs.vectors = !exact.vectors.values.empty();
  job.outputs.normalize = reading.normalize;
  job.outputs.scores = !exact.scores.values.empty();
  job.outputs.values = !exact.values.values.empty();
  job.outputs.scope = reading.scope;
  job.outputs.temperature = reading.temperature;
  if (!exact.tokens.values.empty()) {
    job.outputs.token_logprobs = job.outputs.entropy = job.outputs.vocab_range = true;
    job.outputs.top_logprobs = kNumTop;
    job.outputs.token_ranks = true;
  }
  return job;
}

Matrix Normalized(Matrix rows) {
  for (int64_t row = 0; row < rows.rows; ++row) {
    float* begin = rows.values.data() + row * rows.columns;
    double squares = 0;
    std::for_each(begin, begin + rows.columns, [&](double value) { squares += value * value; });
    std::for_each(begin, begin + rows.columns,
                  [&](float& value) { value = static_cast<float>(value / std::sqrt(squares)); });
  }
  return rows;
}

// One number of an answer and of the reference; `half` is 0 if there is none.
struct Compared {
  const char* output;
  double actual;
  double exact;
  double half;
};

double At(const Matrix& matrix, int64_t row, int64_t column) {
  return matrix.values.empty() ? 0 : double{matrix.Row(row)[column]};
}

// Calls check(entry of the answer, row of the reference) for every entry of `entries`. The
// reference contains the tokens of each path from index `reference_first` on.
template <typename Check>
void ForEachEntry(const PathBatch& batch, const TokenEntries& entries, int64_t reference_first,
                  const Check& check) {
  int64_t reference = 0;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      const int64_t length = batch.PathLength(question, path);
      const int64_t first = entries.first_token[path];
      ASSERT_EQ(entries.offsets[path + 1] - entries.offsets[path],
                std::max<int64_t>(length - first, 0));
      for (int64_t token = first; token < length; ++token) {
        check(entries.offsets[path] + token - first, reference + token - reference_first);
      }
      reference += length - reference_first;
    }
  }
}

// Calls check(Compared) for every number of the answer except vectors.
template <typename Check>
void ForEachNumber(const ReferenceCase& item, const ScoreResult& result, const Reading& reading,
                   const Check& check) {
  const auto compare = [&](const char* output, double actual, Matrix ReferenceOutputs::*kind,
                           int64_t row, int64_t column) {
    check(Compared{output, actual, At(item.exact.*kind, row, column),
                   At(item.half.*kind, row, column)});
  };
  const Matrix& scores = item.exact.scores;
  ASSERT_EQ(result.scores.size(), scores.values.size());
  for (int64_t i = 0; i < scores.rows * scores.columns; ++i) {
    compare("score", result.scores[static_cast<size_t>(i)], &ReferenceOutputs::scores,
            i / scores.columns, i % scores.columns);
  }
  if (!item.exact.values.values.empty()) {
    ForEachEntry(*item.batch, result.values.entries, 0, [&](int64_t entry, int64_t row) {
      compare("value", result.values.values[static_cast<size_t>(entry)], &ReferenceOutputs::values,
              row, 0);
    });
  }
  if (item.exact.tokens.values.empty()) {
    return;
  }
  const TokenOutputs& tokens = result.tokens;
  const int64_t second = reading.temperature == 1 ? 0 : 1;
  ForEachEntry(*item.batch, tokens.entries, 1, [&](int64_t entry, int64_t row) {
    const auto place = static_cast<size_t>(entry);
    const auto column = [&](const char* output, float actual, int64_t index) {
      compare(output, actual, &ReferenceOutputs::tokens, row, index);
    };
    column("log-prob", tokens.logprobs[place], kLogprob + second);
    column("entropy", tokens.entropy[place], kEntropy + second);
    column("smallest logit", tokens.min_logit[place], kMinLogit);
    column("largest logit", tokens.max_logit[place], kMaxLogit);
    for (int64_t rank = 0; second == 0 && rank < kNumTop; ++rank) {
      column("top log-prob", tokens.top_logprobs[place * kNumTop + static_cast<size_t>(rank)],
             kTopLogprobs + rank);
    }
  });
}

// Compares ids only if neighbouring logits differ clearly.
void ExpectTopIds(const ReferenceCase& item, const TokenOutputs& tokens) {
  ForEachEntry(*item.batch, tokens.entries, 1, [&](int64_t entry, int64_t row) {
    const float* expected = item.exact.tokens.Row(row);
    const float* logprobs = expected + kTopLogprobs;
    for (int64_t rank = 0; rank + 1 < kNumTop; ++rank) {
      if ((rank == 0 || logprobs[rank - 1] - logprobs[rank] > 0.01) &&
          logprobs[rank] - logprobs[rank + 1] > 0.01) {
        EXPECT_EQ(tokens.top_ids[static_cast<size_t>(entry * kNumTop + rank)],
                  static_cast<int32_t>(expected[kTopIds + rank]));
      }
    }
  });
}

// Ranks must be exact unless logits are almost equal, which is rare.
void ExpectRanks(const ReferenceCase& item, const TokenOutputs& tokens) {
  int64_t num_exact = 0;
  ForEachEntry(*item.batch, tokens.entries, 1, [&](int64_t entry, int64_t row) {
    const float* expected = item.exact.tokens.Row(row);
    const auto rank = static_cast<float>(tokens.ranks[static_cast<size_t>(entry)]);
    EXPECT_GE(rank, expected[kLowestRank]);
    EXPECT_LE(rank, expected[kHighestRank]);
    num_exact += rank == expected[kRank] ? 1 : 0;
  });
  EXPECT_GE(num_exact, tokens.entries.size() * 9 / 10);
}

Matrix VectorsOf(const ScoreResult& result, const Matrix& like) {
  Matrix vectors = {like.rows, like.columns, std::vector<float>(like.values.size())};
  EXPECT_EQ(result.vectors.size(), like.values.size() * sizeof(float));
  std::copy_n(result.vectors.data(), result.vectors.size(),
              reinterpret_cast<char*>(vectors.values.data()));
  return vectors;
}

void ExpectFloat32Parity(const ReferenceCase& item, const ScoreResult& result,
                         const Reading& reading) {
  const Matrix& vectors = item.exact.vectors;
  for (const double error : SquaredRelativeErrors(
           VectorsOf(result, vectors), reading.normalize ? Normalized(vectors) : vectors)) {
    EXPECT_LE(std::sqrt(error), kMaxFloat32Error) << "vector";
  }
  ForEachNumber(item, result, reading, [](const Compared& number) {
    EXPECT_NEAR(number.actual, number.exact, kMaxFloat32Error * (1 + std::abs(number.exact)))
        << number.output;
  });
  if (!item.exact.tokens.values.empty()) {
    ExpectRanks(item, result.tokens);
  }
  if (!item.exact.tokens.values.empty() && reading.temperature == 1) {
    ExpectTopIds(item, result.tokens);
  }
}

// The sums of squared errors of one output, by Canopy and by PyTorch.
struct ErrorSums {
  double ours = 0;
  double theirs = 0;
};

void AddErrors(const ReferenceCase& item, const ScoreResult& result, const Reading& reading,
               std::map<std::string, ErrorSums>* sums) {
  const auto prepared = [&](const Matrix& rows) {
    return reading.normalize ? Normalized(rows) : rows;
  };
  const Matrix exact = prepared(item.exact.vectors);
  ErrorSums& vectors = (*sums)[reading.normalize ? "embedding" : "vector"];
  for (const double error : SquaredRelativeErrors(VectorsOf(result, exact), exact)) {
    vectors.ours += error;
  }
  for (const double error : SquaredRelativeErrors(prepared(item.half.vectors), exact)) {
    vectors.theirs += error;
  }
  ForEachNumber(item, result, reading, [&](const Compared& number) {
    ErrorSums& output = (*sums)[number.output];
    output.ours += std::pow(number.actual - number.exact, 2);
    output.theirs += std::pow(number.half - number.exact, 2);
  });
  if (!item.exact.tokens.values.empty()) {
    ErrorSums& ranks = (*sums)["rank"];
    ForEachEntry(*item.batch, result.tokens.entries, 1, [&](int64_t entry, int64_t row) {
      const double exact = item.exact.tokens.Row(row)[kRank];
      ranks.ours += std::pow(result.tokens.ranks[static_cast<size_t>(entry)] - exact, 2);
      ranks.theirs += std::pow(item.half.tokens.Row(row)[kRank] - exact, 2);
    });
  }
}

class ParityTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto cases = ReadReferenceCases(CheckpointFolder(GetParam()));
    ASSERT_TRUE(cases.ok()) << cases.status();
    cases_ = *std::move(cases);
  }

  bool Slides() const { return absl::StrContains(GetParam(), "sliding"); }

  // Runs every case by `route`, once for each of its readings, and calls check(item, result,
  // reading) after each run.
  template <typename Check>
  void RunAll(Engine& engine, const ParityRoute& route, const Check& check) {
    for (const auto& [name, item] : cases_) {
      for (const Reading& reading : route.readings) {
        SCOPED_TRACE(absl::StrCat(name, " by ", route.name, " at ", reading.temperature));
        const ScoreResult result = Ask(engine, JobFor(item, route, reading));
        EXPECT_EQ(std::count(result.finite.begin(), result.finite.end(), 0), 0);
        EXPECT_EQ(result.parts == 1, route.max_batch_tokens == kOnePart);
        EXPECT_EQ(result.route.reason == Reason::kUnsupportedLayers,
                  Slides() && route.backend == Backend::kAuto);
        seen_.insert({result.route.backend, result.route.layout});
        check(item, result, reading);
        if (HasFailure()) {
          return;
        }
      }
    }
  }

  // Calls run(engine, route) for every route that the model supports in `dtype`.
  template <typename Run>
  void ForEachRoute(const std::string& dtype, const Run& run) {
    std::map<int64_t, std::unique_ptr<Engine>> engines;
    for (const ParityRoute& route : Routes()) {
      std::unique_ptr<Engine>& engine = engines[route.max_batch_tokens];
      if (engine == nullptr) {
        engine =
            StartEngine(LoadRunner(CheckpointOptions(GetParam(), dtype)), route.max_batch_tokens);
      }
      const ModelInfo& model = *engine->models().front();
      EXPECT_EQ(model.tree_supported, !Slides());
      EXPECT_EQ(model.support_reason.empty(), !Slides());
      if (TestDevice() == "cpu") {
        EXPECT_EQ(model.fused_supported, !Slides());
      }
      if (Runs(model, route.backend)) {
        run(*engine, route);
      }
      if (HasFailure()) {
        return;
      }
    }
  }

  std::map<std::string, ReferenceCase> cases_;
  std::set<std::pair<Backend, Layout>> seen_;
};

TEST_P(ParityTest, Float32MatchesForEveryOutputAndBackend) {
  ForEachRoute("float32", [&](Engine& engine, const ParityRoute& route) {
    RunAll(engine, route, ExpectFloat32Parity);
  });
  // The cases are made so that both backends run in both layouts. Checks that they do.
  if (cases_.count("wide") == 1 && !Slides()) {
    for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
      for (const Layout layout : {Layout::kFlat, Layout::kPadded}) {
        EXPECT_EQ(seen_.count({backend, layout}), 1U) << BackendName(backend) << LayoutName(layout);
      }
    }
  }
}

// Starts an engine without the fused backend, whose costs make AUTO choose `backend`. A forward
// costs far more than its tokens, so requests always share one.
std::unique_ptr<Engine> StartSharing(const std::string& checkpoint, Backend backend,
                                     testing::Gate* gate) {
  TorchRunnerOptions options = CheckpointOptions(checkpoint, "float32");
  options.kernels = nullptr;
  constexpr BackendCost kExpensive = {1e9, 0, 0, 0};
  RouteCosts costs = {{{Backend::kPath, kExpensive},
                       {Backend::kDense, kExpensive},
                       {Backend::kSegmented, kExpensive}}};
  costs.backends[backend] = {1, 0, 1e-6, 0};
  return StartEngine(
      std::make_unique<testing::RoutedRunner>(LoadRunner(options), std::move(costs), gate),
      kOnePart);
}

// Sends each case twice and all of them at once, so that cases share forwards, and the two copies
// of a case share their tokens.
TEST_P(ParityTest, Float32MatchesInForwardsThatRequestsShare) {
  if (Slides()) {
    GTEST_SKIP() << "every request runs alone by path";
  }
  const std::pair<Backend, Reading> runs[] = {{Backend::kDense, kCandidates},
                                              {Backend::kSegmented, kWholePaths}};
  for (const auto& [backend, reading] : runs) {
    SCOPED_TRACE(BackendName(backend));
    testing::Gate gate;
    const auto engine = StartSharing(GetParam(), backend, &gate);
    const ParityRoute route = {"shared", Backend::kAuto, Packing::kAuto, kOnePart, {}};
    gate.Close();
    // The first call occupies the device while the others arrive.
    AnswerCall occupant;
    SubmitTo(*engine, JobFor(cases_.begin()->second, route, reading), &occupant);
    gate.AwaitWaiter();
    std::vector<std::pair<const ReferenceCase*, std::unique_ptr<AnswerCall>>> calls;
    for (const auto& named_case : cases_) {
      for (int i = 0; i < 2; ++i) {
        calls.emplace_back(&named_case.second, std::make_unique<AnswerCall>());
        ScoreJob job = JobFor(named_case.second, route, reading);
        job.routing.max_mask_bytes = int64_t{1} << 30;
        SubmitTo(*engine, std::move(job), calls.back().second.get());
      }
    }
    gate.Open();
    occupant.answered.WaitForNotification();
    int64_t unique = 0;
    int64_t computed = 0;
    for (const auto& [item, call] : calls) {
      call->answered.WaitForNotification();
      ASSERT_TRUE(call->result.ok()) << call->result.status();
      const ScoreResult& result = *call->result;
      EXPECT_GT(result.batch_requests, 1);
      EXPECT_EQ(result.route.backend, backend);
      EXPECT_EQ(std::count(result.finite.begin(), result.finite.end(), 0), 0);
      ExpectFloat32Parity(*item, result, reading);
      unique += result.counts.unique_tokens;
      computed += result.computed_tokens;
    }
    EXPECT_LT(computed, unique) << "no prefix was shared";
  }
}

TEST_P(ParityTest, StorageTypeIsNoWorseThanThatOfPyTorch) {
  const bool is_bfloat16 = absl::EndsWith(GetParam(), "_bf16");
  if (!is_bfloat16 && !absl::EndsWith(GetParam(), "_f16")) {
    GTEST_SKIP() << "stored in float32";
  }
  size_t candidates = 0;
  for (const auto& named_case : cases_) {
    candidates += static_cast<size_t>(named_case.second.exact.vectors.rows);
  }
  EXPECT_GE(candidates, kMinHalfCandidates);
  ForEachRoute(is_bfloat16 ? "bfloat16" : "float16", [&](Engine& engine, const ParityRoute& route) {
    std::map<std::string, ErrorSums> sums;
    RunAll(engine, route, [&](const auto& item, const auto& result, const auto& reading) {
      AddErrors(item, result, reading, &sums);
    });
    for (const auto& [output, errors] : sums) {
      EXPECT_GT(errors.theirs, 0) << output;
      const double ratio = std::sqrt(errors.ours / errors.theirs);
      EXPECT_LE(ratio, kMaxHalfErrorRatio) << output << " by " << route.name;
      RecordProperty(absl::StrCat(route.name, " ", output), absl::StrCat(ratio));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ParityTest, ::testing::ValuesIn(CheckpointNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace canopy
