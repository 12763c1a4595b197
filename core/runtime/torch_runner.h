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
#include "core/checkpoint/head_settings.h"
#include "core/engine/model_runner.h"
#include "core/engine/replacement.h"
#include "core/ops/kernel_ops_factory.h"
#include "core/tree/route.h"

namespace canopy {

struct TorchRunnerOptions {
  std::string name;              // under which clients ask for the model
  std::string source;            // a Hugging Face folder, or synthetic:CONFIG.json
  std::string config;            // config.json from elsewhere; empty = the folder's own
  std::string device;            // "auto", "cpu", "cuda" or "cuda:N"; auto = cuda:0 when it runs
  std::string dtype;             // "auto", "float32", "bfloat16" or "float16"; auto = bfloat16
                                 // on CUDA
  int64_t max_batch_tokens = 0;  // 0 = 16,384 on a CPU, 65,536 on CUDA
  // Serves the last token's vectors even if the folder pools otherwise or puts a layer behind them;
  // if false, such a folder is refused.
  bool force_last_token_pooling = false;
  // Of a language model that is a reranker; unset = what the folder's reranker.json says.
  std::optional<RerankerTokens> reranker;
  int32_t threads = 0;  // LibTorch's, on a CPU; 0 = one a core. Process-wide.
  // Runs every backend before the model is handed out, so that the first request finds them warm,
  // and sets up the policy as core/runtime/model_routes.h says.
  bool prepare_routes = false;
  std::optional<Policy> policy;  // unset = as the model's size, device and costs say
  std::string route_costs;       // file; empty = none
  std::string build;             // version of the program, which measured costs belong to
  // The model is to take the place of one that serves: the device is used in turns, policy and
  // costs are those of what serves.
  std::optional<Replacement> replacement;
  // Returns an error once nobody wants the model, which ends the loading. Asked between steps of
  // some milliseconds, from the loading thread, beside the replacement's; null = always wanted.
  std::function<absl::Status()> check_wanted;
  // Bytes that are free on "cpu" or "cuda:N"; null = the system's answer.
  std::function<absl::StatusOr<int64_t>(absl::string_view device)> available_bytes;
  // Kernels of Backend::kFused; null = CUDA's. Tests put the kernels' twins here.
  KernelOpsFactory kernels;
};

// The token budget that `max_batch_tokens` = 0 stands for on this device.
int64_t DefaultMaxBatchTokens(absl::string_view device);

// INVALID_ARGUMENT for a wrong option or an unsupported config; NOT_FOUND for a missing file;
// DATA_LOSS for a bad checkpoint, or one that changes while it is read; FAILED_PRECONDITION for a
// device that is not there, and for a folder whose vectors are not those of the last token, unless
// force_last_token_pooling; RESOURCE_EXHAUSTED, with bytes needed and available, when the weights
// do not fit, before any is read. Of a replacement also the errors of its hooks, and
// FAILED_PRECONDITION as of ModelSlot.
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadTorchRunner(const TorchRunnerOptions& options);

}  // namespace canopy

#endif  // CORE_RUNTIME_TORCH_RUNNER_H_
