// Measures how long requests at and beyond the limits take until they are decoded or refused.
//
// `of_limit` is the time divided by the time that a refusal may take: 1 ms + 2 ms per MiB.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/stopwatch.h"
#include "benchmark/benchmark.h"
#include "server/wire/request_validator.h"
#include "server/wire/testing/extreme_requests.h"

namespace canopy::server {
namespace {

void Prepare(benchmark::State& state, const SampleRequest& sample) {
  const std::shared_ptr<const ModelInfo> model = ModelOfExtremes();
  const double mebibytes = static_cast<double>(sample.bytes.size()) / (1 << 20);
  const double limit_seconds = 0.001 + 0.002 * mebibytes;
  double slowest_seconds = 0;
  for (auto _ : state) {
    const Stopwatch stopwatch;
    const auto request = PrepareRequest(sample.bytes, RequestLimits(), [&](absl::string_view) {
      return std::shared_ptr<const ModelInfo>(model);
    });
    benchmark::DoNotOptimize(request.ok());
    slowest_seconds = std::max(slowest_seconds, stopwatch.ElapsedMs() / 1'000);
  }
  state.counters["MiB"] = mebibytes;
  // The counter is 1 if one iteration takes the time limit.
  state.counters["of_limit"] = benchmark::Counter(
      limit_seconds, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["slowest_of_limit"] = slowest_seconds / limit_seconds;
}

// Registered while the program starts, because benchmark's own main leaves no later opportunity.
const bool kRegistered = [] {
  static const auto* const samples = [] {
    auto* all = new std::vector<SampleRequest>(HostileRequests());
    for (SampleRequest& legal : LegalRequests()) {
      all->push_back(std::move(legal));
    }
    return all;
  }();
  for (const SampleRequest& sample : *samples) {
    benchmark::RegisterBenchmark(sample.name.c_str(), [&sample](benchmark::State& state) {
      Prepare(state, sample);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace canopy::server
