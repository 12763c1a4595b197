#include "tests/conformance/checkpoint_engine.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ops/testing/reference_kernel_ops.h"
#include "gtest/gtest.h"
#include "tests/testing/test_device.h"

namespace canopy {

std::string CheckpointFolder(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/checkpoints/", name);
}

std::vector<std::string> CheckpointNames() {
  std::ifstream file(CheckpointFolder("names.json"));
  const nlohmann::json names = nlohmann::json::parse(file, nullptr, false);
  return names.is_array() ? names.get<std::vector<std::string>>() : std::vector<std::string>();
}

TorchRunnerOptions CheckpointOptions(const std::string& name, const std::string& dtype) {
  TorchRunnerOptions options;
  options.source.name = name;
  options.source.source = CheckpointFolder(name);
  if (absl::StartsWith(name, "decision")) {
    options.model.config = CheckpointFolder(name + "_backbone");
  }
  options.model.device = TestDevice();
  options.model.dtype = dtype;
  // The tensors are small, so a second thread would only wait for the first.
  options.model.threads = 1;
  // The fused backend runs everywhere: with its kernels on CUDA, with equivalent code elsewhere.
  if (options.model.device == "cpu") {
    options.kernels = ReferenceKernels();
  }
  return options;
}

std::unique_ptr<ModelRunner> LoadRunner(const TorchRunnerOptions& options) {
  auto runner = LoadTorchRunner(options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return *std::move(runner);
}

std::unique_ptr<Engine> StartEngine(std::unique_ptr<ModelRunner> runner, int64_t max_batch_tokens) {
  std::vector<std::unique_ptr<ModelRunner>> runners;
  runners.push_back(std::move(runner));
  Engine::Options options;
  options.scheduler.max_batch_tokens = max_batch_tokens;
  auto engine = Engine::Create(options, std::move(runners));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

void SubmitTo(Engine& engine, ScoreJob job, AnswerCall* call) {
  const absl::Status submitted =
      engine.Submit(std::move(job), [call](absl::StatusOr<ScoreResult> answer) {
        call->result = std::move(answer);
        call->answered.Notify();
      });
  EXPECT_TRUE(submitted.ok()) << submitted;
}

ScoreResult Ask(Engine& engine, ScoreJob job) {
  AnswerCall call;
  SubmitTo(engine, std::move(job), &call);
  call.answered.WaitForNotification();
  EXPECT_TRUE(call.result.ok()) << call.result.status();
  return *std::move(call.result);
}

}  // namespace canopy
