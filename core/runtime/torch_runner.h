// Loads a model onto a device through LibTorch. The header does not include LibTorch.
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
  // Runs every backend before the model is returned, so that the first request is not slow, and
  // sets up the policy as described in core/runtime/model_routes.h.
  bool prepare_routes = false;
  std::string build;  // the version of the program, which is part of the key of measured costs
  // Set if the model replaces one that serves. The two models then share the device in time slices,
  // and the new one takes over policy and costs.
  std::optional<Replacement> replacement;
  // Returns an error if the model is not needed any more, which ends the loading. Called every few
  // milliseconds on the loading thread, in addition to the replacement's function. Null = the model
  // is always needed.
  std::function<absl::Status()> check_wanted;
  // Returns the free bytes on "cpu" or "cuda:N"; null = as the system reports.
  std::function<absl::StatusOr<int64_t>(absl::string_view device)> available_bytes;
  // The kernels of Backend::kFused; null = those for CUDA. Tests use equivalent kernels for the
  // CPU.
  KernelOpsFactory kernels;
};

// Loads a model.
//
// Returns
//   INVALID_ARGUMENT     wrong option or unsupported configuration
//   NOT_FOUND            missing file
//   DATA_LOSS            bad checkpoint, or one that changes while it is read
//   FAILED_PRECONDITION  the device does not exist; the folder uses vectors other than the last
//                        token's without force_last_token_pooling; the errors of ServedModel
//   RESOURCE_EXHAUSTED   the weights do not fit, checked before any is read; with the bytes that
//                        are needed and available
//   the errors of the replacement's functions
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadTorchRunner(const TorchRunnerOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_TORCH_RUNNER_H_
