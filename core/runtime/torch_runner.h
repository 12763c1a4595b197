// Loads a model onto a device through LibTorch. The header is free of LibTorch.
#ifndef CORE_RUNTIME_TORCH_RUNNER_H_
#define CORE_RUNTIME_TORCH_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/model_options.h"
#include "core/engine/model_runner.h"
#include "core/engine/replacement.h"
#include "core/ops/kernel_ops_factory.h"

namespace canopy {

struct TorchRunnerOptions {
  ModelSource source;
  ModelOptions model;
  // Runs every backend before the model is handed out, so that the first request finds them warm,
  // and sets up the policy as core/runtime/model_routes.h says.
  bool prepare_routes = false;
  std::string build;  // version of the program, which measured costs belong to
  // The model is to take the place of one that serves: the two models share the device in time
  // slices, policy and costs are those of what serves.
  std::optional<Replacement> replacement;
  // Returns an error once nobody wants the model, which ends the loading. Asked between steps of
  // some milliseconds, from the loading thread, beside the replacement's; null = always wanted.
  std::function<absl::Status()> check_wanted;
  // Bytes that are free on "cpu" or "cuda:N"; null = the system's answer.
  std::function<absl::StatusOr<int64_t>(absl::string_view device)> available_bytes;
  // Kernels of Backend::kFused; null = CUDA's. Tests put the kernels' twins here.
  KernelOpsFactory kernels;
};

// INVALID_ARGUMENT for a wrong option or an unsupported config; NOT_FOUND for a missing file;
// DATA_LOSS for a bad checkpoint, or one that changes while it is read; FAILED_PRECONDITION for a
// device that is not there, and for a folder whose vectors are not those of the last token, unless
// force_last_token_pooling; RESOURCE_EXHAUSTED, with bytes needed and available, when the weights
// do not fit, before any is read. Of a replacement also the errors of its hooks, and
// FAILED_PRECONDITION as of ServedModel.
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadTorchRunner(const TorchRunnerOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_TORCH_RUNNER_H_
