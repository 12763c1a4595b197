// The part of a Hugging Face config.json that decides what a model computes, checked once so that
// nothing later has to doubt a size.
#ifndef CORE_CHECKPOINT_MODEL_CONFIG_H_
#define CORE_CHECKPOINT_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/folder_snapshot.h"
#include "core/checkpoint/rope_config.h"

namespace canopy {

// What stands on the decoder, as the class in `architectures` says.
enum class ModelHead {
  kNone,           // ...Model: vectors only.
  kLanguageModel,  // ...ForCausalLM.
  kClassifier,     // ...ForSequenceClassification: a linear head of num_labels rows, no bias.
};

// How a layer moves information between tokens. A new kind gets a struct in weights.h and a step in
// layer_ops.h; docs/MODELS.md lists all that it takes.
enum class MixerKind {
  kFullAttention,
  kSlidingAttention,  // Of the last `sliding_window` tokens.
};

// What a layer does with each token alone, after its mixer.
enum class ChannelKind {
  kGatedMlp,
  kExperts,
};

// The mixture of experts in sparse layers.
struct ExpertsConfig {
  std::vector<bool> sparse_layers;  // [layers]; empty when all are dense.
  int64_t num_experts = 0;
  int64_t experts_per_token = 0;   // At most num_experts.
  int64_t intermediate_size = 0;   // Of each expert.
  bool normalize_weights = false;  // The chosen experts' weights add up to 1.
};

// Every size is positive and so bounded that products of sizes, parameter counts and byte counts
// fit in int64. Plain value.
struct ModelConfig {
  std::string architecture;  // The class, such as "Qwen3ForCausalLM".
  ModelHead head = ModelHead::kNone;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_query_heads = 0;  // A multiple of num_kv_heads.
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // Even.
  int64_t max_position_embeddings = 0;
  // The longest path: max_position_embeddings, or more if `rope` stretches positions beyond it.
  int64_t max_positions = 0;
  double rms_norm_eps = 0.0;
  RopeConfig rope;
  bool qkv_bias = false;
  bool output_bias = false;  // Of the attention's output projection.
  bool qk_norm = false;      // RMS norm of each query and key head.
  bool tie_word_embeddings = false;
  int64_t sliding_window = 0;  // Tokens that a token of a sliding layer reads; 0 = none slides.
  std::vector<bool> sliding_layers;  // [layers]; empty when none slides.
  ExpertsConfig experts;
  int64_t num_labels = 0;  // Rows of the classification head; 0 for other heads.
  // A classifier's `pad_token_id`, if it is in the vocabulary. It does not change what is computed:
  // transformers reads the score of the last other token, Canopy that of the last token.
  std::optional<int32_t> pad_token;
  std::string auto_map;                   // As in config.json, for the log: its code never runs.
  std::vector<std::string> ignored_keys;  // Keys without effect that look as if they had one.

  int64_t query_size() const { return num_query_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  MixerKind mixer(int64_t layer) const {
    const bool slides = !sliding_layers.empty() && sliding_layers[static_cast<size_t>(layer)];
    return slides ? MixerKind::kSlidingAttention : MixerKind::kFullAttention;
  }
  ChannelKind channel(int64_t layer) const {
    const std::vector<bool>& sparse = experts.sparse_layers;
    return !sparse.empty() && sparse[static_cast<size_t>(layer)] ? ChannelKind::kExperts
                                                                 : ChannelKind::kGatedMlp;
  }
};

// For any of the families in core/model/families. INVALID_ARGUMENT, naming the key, its value and
// what is possible, for hostile or incomplete JSON, for sizes out of range, and for everything that
// would change the computation in a way we do not know: partial or dynamic RoPE, quantisation,
// other activations and architectures.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view text);

inline constexpr char kConfigFile[] = "config.json";

// Reads and parses the file `name` of a folder. Errors of FolderSnapshot::ReadText, and of
// ParseModelConfig with the path in front.
absl::StatusOr<ModelConfig> ReadModelConfig(FolderSnapshot* folder, const std::string& name);

// `path` is a config.json or a folder that holds one. Errors of ReadModelConfig, and DATA_LOSS if
// the file changes while it is read.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& path);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_MODEL_CONFIG_H_
