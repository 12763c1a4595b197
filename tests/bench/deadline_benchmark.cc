// Measures how long after its deadline a job is answered, in milliseconds, in each state of the
// job: on the device, planned while another job runs, waiting behind others, or between its parts.
// Also measures how late a thread wakes that only sleeps until the same time: the machine causes
// this part of the delay.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "benchmark/benchmark.h"
#include "core/engine/engine.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using Clock = std::chrono::steady_clock;

// By the engine's estimate, the time is enough for the 100 jobs ahead. Otherwise the job would be
// refused.
constexpr auto kTimeToDeadline = std::chrono::milliseconds(100);

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

double LateMs(Clock::time_point at, Clock::time_point deadline) {
  return std::chrono::duration<double, std::milli>(at - deadline).count();
}

void Report(const std::string& name, std::vector<double> late_ms, benchmark::State* state) {
  std::sort(late_ms.begin(), late_ms.end());
  if (!late_ms.empty()) {
    state->counters[name + "p50_ms"] = late_ms[late_ms.size() / 2];
    state->counters[name + "p99_ms"] = late_ms[late_ms.size() * 99 / 100];
    state->counters[name + "max_ms"] = late_ms.back();
  }
}

void BM_AnswerAfterDeadline(benchmark::State& state) {
  const auto controls = std::make_shared<testing::FakeControls>();
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::make_unique<testing::FakeRunner>(testing::FakeModelInfo(), controls));
  Engine::Options options;
  options.scheduler.max_batch_tokens = 200;
  auto engine = Engine::Create(options, std::move(runners));
  std::vector<double> late_ms;
  std::vector<double> sleeper_late_ms;
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
    const Clock::time_point deadline = Clock::now() + kTimeToDeadline;
    Clock::time_point woken_at;
    std::thread sleeper([&] {
      std::this_thread::sleep_until(deadline);
      woken_at = Clock::now();
    });
    Clock::time_point answered_at;
    Notification answered;
    const absl::Status submitted =
        (*engine)->Submit(Job(job_state == kBetweenParts ? 30 : 1, deadline), [&](const auto&) {
          answered_at = Clock::now();
          answered.Notify();
        });
    if (!submitted.ok()) {
      // The jobs ahead took so long in the previous iteration that this job cannot meet its
      // deadline.
      controls->gate.Open();
      sleeper.join();
      state.SkipWithError(submitted.ToString().c_str());
      break;
    }
    if (job_state == kBetweenParts) {
      controls->gate.AwaitWaiter();
      controls->gate.AdmitOne();
    }
    answered.WaitForNotification();
    sleeper.join();
    late_ms.push_back(LateMs(answered_at, deadline));
    sleeper_late_ms.push_back(LateMs(woken_at, deadline));
    controls->gate.Open();
    // Waits until the device is free.
    Notification free;
    (void)(*engine)->Submit(Job(1, Clock::time_point::max()), [&](const auto&) { free.Notify(); });
    free.WaitForNotification();
  }
  Report("", std::move(late_ms), &state);
  Report("sleeper_", std::move(sleeper_late_ms), &state);
}

BENCHMARK(BM_AnswerAfterDeadline)
    ->ArgName("state")
    ->DenseRange(kOnDevice, kBetweenParts)
    ->Iterations(200)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace canopy
