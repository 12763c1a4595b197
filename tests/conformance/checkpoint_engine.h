// An engine over a checkpoint that a script of this folder has made, and requests to it.
#ifndef TESTS_CONFORMANCE_CHECKPOINT_ENGINE_H_
#define TESTS_CONFORMANCE_CHECKPOINT_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "core/engine/engine.h"
#include "core/engine/model_runner.h"
#include "core/runtime/torch_runner.h"

namespace canopy {

// Below the test's temporary folder, where conformance_test.sh has made them.
std::string CheckpointFolder(const std::string& name);

// The names that the script lists; none without its folder.
std::vector<std::string> CheckpointNames();

// On the test's device. A decision checkpoint's config is that of its backbone.
TorchRunnerOptions CheckpointOptions(const std::string& name, const std::string& dtype);

// These fail the running test, and what they return is of no use, when something is refused.
std::unique_ptr<ModelRunner> LoadRunner(const TorchRunnerOptions& options);
std::unique_ptr<Engine> StartEngine(std::unique_ptr<ModelRunner> runner, int64_t max_batch_tokens);
ScoreResult Ask(Engine& engine, ScoreJob job);

// An answer that is awaited elsewhere. Must outlive it.
struct AnswerCall {
  Notification answered;
  absl::StatusOr<ScoreResult> result = absl::UnknownError("not answered");
};
void SubmitTo(Engine& engine, ScoreJob job, AnswerCall* call);

}  // namespace canopy

#endif  // TESTS_CONFORMANCE_CHECKPOINT_ENGINE_H_
