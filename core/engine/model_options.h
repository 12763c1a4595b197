// The names of the models to load, and the options for loading them.
#ifndef CORE_ENGINE_MODEL_OPTIONS_H_
#define CORE_ENGINE_MODEL_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/tree/route.h"

namespace canopy {

// One model to load.
struct ModelSource {
  std::string name;    // the name that clients use
  std::string source;  // a Hugging Face folder, or synthetic:CONFIG.json
};

// Options for all models of a process.
struct ModelOptions {
  std::string config;  // the path of another config.json; empty = that of the folder
  // "auto", "cpu", "cuda" or "cuda:N"; auto = cuda:0 if it works, else cpu
  std::string device = "auto";
  // "auto", "float32", "bfloat16" or "float16"; auto = bfloat16 on CUDA, float32 on a CPU.
  std::string dtype = "auto";
  // The most tokens that one forward computes, >= 0; 0 = DefaultBatchTokens of the device.
  int64_t max_batch_tokens = 0;
  // Serves the vector of the last token even if the folder uses another pooling or a layer after
  // it. If false, such a folder is refused.
  bool force_last_token_pooling = false;
  // The "yes" and "no" tokens of a language model that is a reranker; set both or neither. -1 = as
  // in the folder's reranker.json.
  int64_t reranker_yes_token = -1;
  int64_t reranker_no_token = -1;
  // LibTorch's threads on a CPU, for the whole process, >= 0; 0 = one per core
  int32_t threads = 0;
  // The policy for requests that name none. Unset = chosen by the model's size, device and costs.
  std::optional<Policy> policy;
  std::string route_costs;  // the path of a file with measured costs; empty = none
};

}  // namespace canopy

#endif  // CORE_ENGINE_MODEL_OPTIONS_H_
