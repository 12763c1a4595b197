// Lists all members of a ModelConfig. The settings of the fingerprint are derived from this list.
//
// The structured bindings below name every member, so a member that is added to one of these
// structs without being listed here does not compile. A new member must be listed as one of these:
//   Setting    The member can change an answer while the tensors stay the same. It is part of the
//              fingerprint unless it has the value that a default-constructed ModelConfig gives it.
//              Choose a default that means "as before", so that older checkpoints keep their
//              fingerprints.
//   InTensors  The member follows from names and shapes of the tensors, which are part of the
//              fingerprint: MatchWeights refuses a config that contradicts them.
#ifndef CORE_CHECKPOINT_CONFIG_FIELDS_H_
#define CORE_CHECKPOINT_CONFIG_FIELDS_H_

#include "core/checkpoint/model_config.h"

namespace canopy {

template <typename Visitor>
void VisitRopeFields(const RopeConfig& rope, Visitor& visitor) {
  const auto& [type, theta, factor, original_max_position_embeddings, beta_fast, beta_slow,
               truncate, attention_factor, low_freq_factor, high_freq_factor] = rope;
  visitor.Setting("rope.type", type);
  visitor.Setting("rope.theta", theta);
  visitor.Setting("rope.factor", factor);
  visitor.Setting("rope.original_max_position_embeddings", original_max_position_embeddings);
  visitor.Setting("rope.beta_fast", beta_fast);
  visitor.Setting("rope.beta_slow", beta_slow);
  visitor.Setting("rope.truncate", truncate);
  // The value is rounded to float32, because its default comes from a logarithm, whose last bit
  // differs between math libraries. Cosines and sines are multiplied by it in float32 anyway.
  visitor.Setting("rope.attention_factor",
                  static_cast<double>(static_cast<float>(attention_factor)));
  visitor.Setting("rope.low_freq_factor", low_freq_factor);
  visitor.Setting("rope.high_freq_factor", high_freq_factor);
}

template <typename Visitor>
void VisitExpertsFields(const ExpertsConfig& experts, Visitor& visitor) {
  const auto& [sparse_layers, num_experts, experts_per_token, intermediate_size,
               normalize_weights] = experts;
  visitor.InTensors("experts.sparse_layers", sparse_layers);
  visitor.InTensors("experts.num_experts", num_experts);
  visitor.Setting("experts.experts_per_token", experts_per_token);
  visitor.InTensors("experts.intermediate_size", intermediate_size);
  visitor.Setting("experts.normalize_weights", normalize_weights);
}

// Calls visitor.Setting(name, value) or visitor.InTensors(name, value) for each member. Values are
// int64_t, double, bool, std::vector<bool>, std::string, ModelHead or RopeType.
template <typename Visitor>
void VisitFields(const ModelConfig& config, Visitor& visitor) {
  const auto& [architecture, head, vocab_size, hidden_size, intermediate_size, num_layers,
               num_query_heads, num_kv_heads, head_dim, max_position_embeddings, max_positions,
               rms_norm_eps, rope, qkv_bias, output_bias, qk_norm, tie_word_embeddings,
               sliding_window, sliding_layers, experts, num_labels, pad_token, auto_map,
               ignored_keys] = config;
  // max_positions follows from max_position_embeddings and rope. The other three do not change
  // answers.
  static_cast<void>(max_positions);
  static_cast<void>(pad_token);
  static_cast<void>(auto_map);
  static_cast<void>(ignored_keys);
  // The architecture names a head and a family. Everything that a family computes is in other
  // members.
  visitor.InTensors("architecture", architecture);
  visitor.Setting("head", head);
  visitor.InTensors("vocab_size", vocab_size);
  visitor.InTensors("hidden_size", hidden_size);
  visitor.InTensors("intermediate_size", intermediate_size);
  visitor.Setting("num_layers", num_layers);
  visitor.Setting("num_query_heads", num_query_heads);
  // The rows of q_proj are num_query_heads * head_dim, those of k_proj num_kv_heads * head_dim.
  visitor.InTensors("num_kv_heads", num_kv_heads);
  visitor.InTensors("head_dim", head_dim);
  visitor.Setting("max_position_embeddings", max_position_embeddings);
  visitor.Setting("rms_norm_eps", rms_norm_eps);
  VisitRopeFields(rope, visitor);
  visitor.InTensors("qkv_bias", qkv_bias);
  visitor.InTensors("output_bias", output_bias);
  visitor.InTensors("qk_norm", qk_norm);
  // If a tied head is stored, it must equal the embedding, so both give the same answers. An untied
  // language model without a stored head counts as a model without a head: see AnswerSettings.
  visitor.InTensors("tie_word_embeddings", tie_word_embeddings);
  visitor.Setting("sliding_window", sliding_window);
  visitor.Setting("sliding_layers", sliding_layers);
  VisitExpertsFields(experts, visitor);
  visitor.InTensors("num_labels", num_labels);
}

}  // namespace canopy

#endif  // CORE_CHECKPOINT_CONFIG_FIELDS_H_
