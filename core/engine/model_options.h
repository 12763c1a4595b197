// Names a model to load, and says how models are loaded.
#ifndef CORE_ENGINE_MODEL_OPTIONS_H_
#define CORE_ENGINE_MODEL_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/tree/route.h"

namespace canopy {

// One model to load.
struct ModelSource {
  std::string name;    // under which clients ask for the model
  std::string source;  // a Hugging Face folder, or synthetic:CONFIG.json
};

// Holds for all models of a process.
struct ModelOptions {
  std::string config;           // config.json from elsewhere; empty = the folder's own
  std::string device = "auto";  // "auto", "cpu", "cuda" or "cuda:N"; auto = cuda:0 when it runs
  // "auto", "float32", "bfloat16" or "float16"; auto = bfloat16 on CUDA, float32 on a CPU.
  std::string dtype = "auto";
  // Computed tokens of one forward, >= 0; 0 = DefaultBatchTokens of the device.
  int64_t max_batch_tokens = 0;
  // Serves the last token's vectors even if the folder pools otherwise or puts a layer behind them;
  // if false, such a folder is refused.
  bool force_last_token_pooling = false;
  // The tokens of a language model that is a reranker, both or none; -1 = what the folder's
  // reranker.json says.
  int64_t reranker_yes_token = -1;
  int64_t reranker_no_token = -1;
  int32_t threads = 0;  // LibTorch's, on a CPU, >= 0; 0 = one a core. Process-wide.
  // The policy of requests that leave it open; unset = as the model's size, device and costs say.
  std::optional<Policy> policy;
  std::string route_costs;  // a file of measured costs; empty = none
};

}  // namespace canopy

#endif  // CORE_ENGINE_MODEL_OPTIONS_H_
