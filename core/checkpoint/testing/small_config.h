// The configuration of tests of the forward pass: small, with all features of Qwen3.
#ifndef CORE_CHECKPOINT_TESTING_SMALL_CONFIG_H_
#define CORE_CHECKPOINT_TESTING_SMALL_CONFIG_H_

#include <cstdint>

#include "core/checkpoint/model_config.h"

namespace canopy {

inline ModelConfig SmallConfig(int64_t vocab_size) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_layers = 3;
  config.num_query_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.max_position_embeddings = 512;
  config.rms_norm_eps = 1e-6;
  config.rope.theta = 10000;
  config.qk_norm = true;
  return config;
}

}  // namespace canopy

#endif  // CORE_CHECKPOINT_TESTING_SMALL_CONFIG_H_
