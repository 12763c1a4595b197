// How long after its deadline a job is answered, in milliseconds, in each state that it can be in:
// on the device, planned behind what runs there, waiting behind others, between its parts.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/mutex.h"
#include "core/engine/engine.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using Clock = std::chrono::steady_clock;

enum JobState { kOnDevice, kPlanned, kWaiting, kBetweenParts };

std::shared_ptr<const PathBatch> Batch(int questions) {
  auto batch = std::make_shared<PathBatch>();
  for (int question = 0; question < questions; ++question) {
    batch->AddQuestion(std::vector<int32_t>(40, question), {{1, 2}, {3}, {4, 5, 6}});
  }
  return batch;
}

ScoreJob Job(int questions, Clock::time_point deadline) {
  ScoreJob job;
  job.batch = Batch(questions);
  job.outputs.scores = true;
  job.routing.backend = Backend::kPath;
  job.deadline = deadline;
  return job;
}

void BM_AnswerAfterDeadline(benchmark::State& state) {
  const auto controls = std::make_shared<testing::FakeControls>();
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::make_unique<testing::FakeRunner>(testing::FakeModelInfo(), controls));
  Engine::Options options;
  options.max_batch_tokens = 200;
  auto engine = Engine::Create(options, std::move(runners));
  std::vector<double> late_ms;
  for (auto _ : state) {
    const JobState job_state = static_cast<JobState>(state.range(0));
    controls->gate.Close();
    const int ahead = job_state == kPlanned ? 1 : job_state == kWaiting ? 100 : 0;
    for (int i = 0; i < ahead; ++i) {
      (void)(*engine)->Submit(Job(1, Clock::time_point::max()), [](const auto&) {});
      if (i == 0) {
        controls->gate.AwaitWaiter();
      }
    }
    const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(20);
    Clock::time_point answered_at;
    Notification answered;
    const absl::Status submitted =
        (*engine)->Submit(Job(job_state == kBetweenParts ? 30 : 1, deadline), [&](const auto&) {
          answered_at = Clock::now();
          answered.Notify();
        });
    if (!submitted.ok()) {
      continue;
    }
    if (job_state == kBetweenParts) {
      controls->gate.AwaitWaiter();
      controls->gate.LetOnePass();
    }
    answered.WaitForNotification();
    late_ms.push_back(std::chrono::duration<double, std::milli>(answered_at - deadline).count());
    controls->gate.Open();
    // Until the device is free.
    Notification free;
    (void)(*engine)->Submit(Job(1, Clock::time_point::max()), [&](const auto&) { free.Notify(); });
    free.WaitForNotification();
  }
  std::sort(late_ms.begin(), late_ms.end());
  if (!late_ms.empty()) {
    state.counters["p50_ms"] = late_ms[late_ms.size() / 2];
    state.counters["p99_ms"] = late_ms[late_ms.size() * 99 / 100];
    state.counters["max_ms"] = late_ms.back();
  }
}

BENCHMARK(BM_AnswerAfterDeadline)
    ->ArgName("state")
    ->DenseRange(kOnDevice, kBetweenParts)
    ->Iterations(200)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace canopy
