// The part of a Hugging Face config.json that determines what a model computes. All sizes are
// checked here, so that later code can rely on them.
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

// The head on top of the decoder, according to the class in `architectures`.
enum class ModelHead {
  kNone,           // ...Model: vectors only
  kLanguageModel,  // ...ForCausalLM
  kClassifier,     // ...ForSequenceClassification: a linear head of num_labels rows without bias
};

// The way in which a layer moves information between tokens. A new kind needs a struct in weights.h
// and a step in layer_ops.h; docs/MODELS.md lists all steps.
enum class MixerKind {
  kFullAttention,
  kSlidingAttention,  // attention to the last `sliding_window` tokens
};

// The part of a layer after its mixer, which processes each token separately.
enum class ChannelKind {
  kGatedMlp,
  kExperts,
};

// The mixture of experts in sparse layers.
struct ExpertsConfig {
  std::vector<bool> sparse_layers;  // [layers]; empty if all layers are dense
  int64_t num_experts = 0;
  int64_t experts_per_token = 0;   // at most num_experts
  int64_t intermediate_size = 0;   // size of each expert
  bool normalize_weights = false;  // true = the chosen experts' weights are divided by their sum
};

// Every size is positive and bounded so that products of sizes, parameter counts and byte counts
// fit in int64. Plain value.
struct ModelConfig {
  std::string architecture;  // the class, such as "Qwen3ForCausalLM"
  ModelHead head = ModelHead::kNone;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_query_heads = 0;  // a multiple of num_kv_heads
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // even
  int64_t max_position_embeddings = 0;
  // The length of the longest path: max_position_embeddings, or more if `rope` stretches positions.
  int64_t max_positions = 0;
  double rms_norm_eps = 0.0;
  RopeConfig rope;
  bool qkv_bias = false;
  bool output_bias = false;  // bias of the attention's output projection
  bool qk_norm = false;      // RMS norm of each query and key head
  bool tie_word_embeddings = false;
  // tokens that a token of a sliding layer reads; 0 = no sliding layers
  int64_t sliding_window = 0;
  std::vector<bool> sliding_layers;  // [layers]; empty if no layer slides
  ExpertsConfig experts;
  int64_t num_labels = 0;  // rows of the classification head; 0 for other heads
  // A classifier's `pad_token_id`, if it is in the vocabulary. It does not change the computation:
  // transformers reads the score of the last token that is not the pad token, Canopy that of the
  // last token.
  std::optional<int32_t> pad_token;
  std::string auto_map;  // as in config.json, for the log; Canopy never runs its code
  std::vector<std::string> ignored_keys;  // keys that have no effect although they seem to

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

// Parses the config of any family in core/checkpoint/families. Returns INVALID_ARGUMENT for
// malformed or incomplete JSON, for sizes out of range, and for settings that would change the
// computation in an unsupported way: partial or dynamic RoPE, quantization, other activations and
// architectures. The message names the key, its value and the allowed values.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view text);

inline constexpr char kConfigFile[] = "config.json";

// Reads and parses the file `name` of a folder. Returns the errors of FolderSnapshot::ReadText, and
// those of ParseModelConfig prefixed with the path.
absl::StatusOr<ModelConfig> ReadModelConfig(FolderSnapshot* folder, const std::string& name);

// `path` is a config.json or a folder that contains one. Returns the errors of ReadModelConfig, and
// DATA_LOSS if the file changes during the read.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& path);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_MODEL_CONFIG_H_
