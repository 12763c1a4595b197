// An engine with a checkpoint from a script of this folder, and requests for it.
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

// Returns a folder below the test's temporary folder, where conformance_test.sh has made it.
std::string CheckpointFolder(const std::string& name);

// Returns the names that the script lists; empty without its folder.
std::vector<std::string> CheckpointNames();

// Returns options for the test's device. A decision checkpoint has the config of its backbone.
TorchRunnerOptions CheckpointOptions(const std::string& name, const std::string& dtype);

// On an error these functions fail the running test, and their results must not be used.
std::unique_ptr<ModelRunner> LoadRunner(const TorchRunnerOptions& options);
std::unique_ptr<Engine> StartEngine(std::unique_ptr<ModelRunner> runner, int64_t max_batch_tokens);
ScoreResult Ask(Engine& engine, ScoreJob job);

// An answer that arrives on another thread. Must outlive the call.
struct AnswerCall {
  Notification answered;
  absl::StatusOr<ScoreResult> result = absl::UnknownError("not answered");
};
void SubmitTo(Engine& engine, ScoreJob job, AnswerCall* call);

}  // namespace canopy

#endif  // TESTS_CONFORMANCE_CHECKPOINT_ENGINE_H_
