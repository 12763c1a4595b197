// Measures the cost of admission: the estimate of a request, and a place in a full queue.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/engine/scheduler.h"
#include "core/tree/path_batch.h"
#include "core/tree/work_estimate.h"

namespace canopy {
namespace {

constexpr TimePoint kNow{std::chrono::seconds(100)};

JobRequest Request(JobId id, std::string client) {
  JobRequest request;
  request.id = id;
  request.client = std::move(client);
  request.tokens = 100;
  return request;
}

// One job is admitted, taken, launched and answered while `jobs` others wait.
void BM_OneJob(benchmark::State& state) {
  Scheduler scheduler({});
  JobId next = 1;
  for (int64_t i = 0; i < state.range(0); ++i) {
    scheduler.Admit(Request(next++, std::to_string(i % 64)), kNow);
  }
  for (auto _ : state) {
    scheduler.Admit(Request(next, std::to_string(next % 64)), kNow);
    ++next;
    const ScheduledBatch batch = *scheduler.Take(kNow);
    scheduler.Launch(batch);
    scheduler.RecordForward(batch, std::chrono::microseconds(50));
    for (const JobId id : batch.jobs) {
      scheduler.Finish(id);
    }
  }
}
BENCHMARK(BM_OneJob)->Arg(0)->Arg(63)->Arg(1'000);

// The queue is full with `jobs` jobs. Either each client has one job, except a client that has a
// hundredth more and loses a job to each new one, or all clients are equal and no job makes room.
void BM_AdmitToAFullQueue(benchmark::State& state) {
  const int64_t jobs = state.range(0);
  const bool makes_room = state.range(1) != 0;
  Scheduler::Options options;
  options.max_queued_requests = jobs;
  options.max_queued_tokens = int64_t{1} << 40;
  Scheduler scheduler(options);
  JobId next = 1;
  for (int64_t i = 0; i < jobs; ++i) {
    scheduler.Admit(Request(next++, makes_room && i % 2 == 0 ? "greedy" : std::to_string(i)), kNow);
  }
  int64_t newcomers = 0;
  for (auto _ : state) {
    const Scheduler::Admission admission =
        scheduler.Admit(Request(next++, "new" + std::to_string(newcomers++)), kNow);
    if (admission.refusal.has_value() == makes_room) {
      state.SkipWithError("the queue is not what it is meant to be");
      break;
    }
    if (makes_room) {
      // The new job leaves, and the greedy client takes its place.
      state.PauseTiming();
      scheduler.Cancel(next - 1);
      scheduler.Admit(Request(next++, "greedy"), kNow);
      state.ResumeTiming();
    }
  }
}
BENCHMARK(BM_AdmitToAFullQueue)
    ->ArgNames({"jobs", "makes_room"})
    ->Args({1'024, 0})
    ->Args({100'000, 0})
    ->Args({1'024, 1})
    ->Args({100'000, 1});

// The job has a deadline, so the work ahead must be computed.
void BM_AdmitWithADeadline(benchmark::State& state) {
  const int64_t clients = state.range(0);
  Scheduler::Options options;
  options.max_queued_requests = clients + 1;
  options.max_queued_tokens = int64_t{1} << 40;
  Scheduler scheduler(options);
  JobId next = 1;
  for (int64_t i = 0; i < clients; ++i) {
    scheduler.Admit(Request(next++, std::to_string(i)), kNow);
  }
  ScheduledBatch batch;
  batch.tokens = batch.size_tokens = 100;
  for (int i = 0; i < 10; ++i) {
    scheduler.RecordForward(batch, std::chrono::nanoseconds(1));
  }
  for (auto _ : state) {
    JobRequest request = Request(next++, "new");
    request.deadline = kNow + std::chrono::seconds(10);
    if (scheduler.Admit(std::move(request), kNow).refusal.has_value()) {
      state.SkipWithError("refused");
      break;
    }
    scheduler.Cancel(next - 1);
  }
}
BENCHMARK(BM_AdmitWithADeadline)->ArgName("clients")->Arg(1)->Arg(1'024)->Arg(100'000);

PathBatch Fan(int32_t questions, int32_t candidates, int32_t prefix, int32_t suffix) {
  std::mt19937_64 random(1);
  const auto tokens = [&random](int32_t count) {
    std::vector<int32_t> drawn(static_cast<size_t>(count));
    for (int32_t& token : drawn) {
      token = static_cast<int32_t>(random() % 150'000);
    }
    return drawn;
  };
  PathBatch batch;
  for (int32_t question = 0; question < questions; ++question) {
    std::vector<std::vector<int32_t>> suffixes;
    suffixes.reserve(static_cast<size_t>(candidates));
    for (int32_t i = 0; i < candidates; ++i) {
      suffixes.push_back(tokens(suffix));
    }
    batch.AddQuestion(tokens(prefix), suffixes);
  }
  return batch;
}

// Estimates the shapes of canopy_load under a policy that has to count unique tokens.
void BM_EstimateWork(benchmark::State& state, int32_t questions, int32_t candidates, int32_t prefix,
                     int32_t suffix, Backend backend) {
  const PathBatch batch = Fan(questions, candidates, prefix, suffix);
  RouteOptions options;
  options.backend = backend;
  options.fused_supported = true;
  for (auto _ : state) {
    benchmark::DoNotOptimize(EstimateWork(batch, options));
  }
  state.counters["tokens_as_sent"] = static_cast<double>(batch.tokens.size());
}
BENCHMARK_CAPTURE(BM_EstimateWork, small_by_the_reference_rules, 1, 4, 100, 16, Backend::kAuto);
BENCHMARK_CAPTURE(BM_EstimateWork, tiny, 1, 4, 12, 4, Backend::kFused);
BENCHMARK_CAPTURE(BM_EstimateWork, small, 1, 4, 100, 16, Backend::kFused);
BENCHMARK_CAPTURE(BM_EstimateWork, typed, 5, 4, 440, 16, Backend::kFused);
BENCHMARK_CAPTURE(BM_EstimateWork, candidates255, 1, 255, 1024, 32, Backend::kFused);
BENCHMARK_CAPTURE(BM_EstimateWork, rollout, 32, 64, 1024, 64, Backend::kFused);
BENCHMARK_CAPTURE(BM_EstimateWork, many_tokens, 64, 1024, 16, 63, Backend::kFused);

}  // namespace
}  // namespace canopy

BENCHMARK_MAIN();
