// Measures the cost of a Score call without the model: a real server with a fake, from the client's
// side.
#include "benchmark/benchmark.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

// The arguments are the number of questions and of candidates per question. Prefixes have 64
// tokens, candidates 8.
void BM_Score(benchmark::State& state) {
  TestServer server;
  v1::ScoreRequest request;
  const std::vector<uint32_t> prefix(64, 7);
  const std::vector<std::vector<uint32_t>> candidates(static_cast<size_t>(state.range(1)),
                                                      std::vector<uint32_t>(8, 5));
  for (int64_t i = 0; i < state.range(0); ++i) {
    AddQuestion(&request, prefix, candidates);
  }
  v1::Stats stats;
  for (auto _ : state) {
    v1::ScoreResponse response;
    if (!server.Score(request, &response).ok()) {
      state.SkipWithError("refused");
      break;
    }
    stats = response.stats();
  }
  state.counters["decode_ms"] = stats.decode_ms();
  state.counters["plan_ms"] = stats.plan_ms();
  state.counters["encode_queue_ms"] = stats.encode_queue_ms();
  state.counters["encode_ms"] = stats.encode_ms();
  state.counters["total_ms"] = stats.total_ms();
}

BENCHMARK(BM_Score)
    ->Args({1, 4})
    ->Args({64, 16})
    ->Args({1'024, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace canopy::testing
