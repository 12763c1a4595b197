// The rotary position embedding that a config.json asks for.
#ifndef CORE_CHECKPOINT_ROPE_CONFIG_H_
#define CORE_CHECKPOINT_ROPE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/checkpoint/config_reader.h"

namespace canopy {

// The largest position that a config may name: far above published models.
inline constexpr int64_t kMaxPositions = 1 << 24;

// How the frequencies of `theta` are stretched to longer paths. "dynamic" is left out: its angles
// depend on the longest path of a batch, so that paths would change each other's results.
enum class RopeType { kDefault, kLinear, kYarn, kLlama3 };

// Names and meanings are those of transformers. Fields below a type are read for that type only.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 0.0;

  // kLinear, kYarn, kLlama3
  double factor = 1.0;

  // kYarn, kLlama3: the length that the model was trained on before it was stretched.
  int64_t original_max_position_embeddings = 0;

  // kYarn: wavelengths between the two betas, in turns over the original length, are blended.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;           // Rounds the blend's bounds to whole dimensions.
  double attention_factor = 1.0;  // Cosines and sines are multiplied by it.

  // kLlama3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
};

// What holds where a config.json says nothing.
struct RopeDefaults {
  int64_t max_position_embeddings = 0;  // of the model
  double theta = 0.0;                   // 0 = none: rope_theta is required
};

// Reads both dialects: `rope_parameters` of transformers 5, and `rope_theta` + `rope_scaling` of
// published folders. Appends to `ignored` the keys that transformers does not read for the type,
// such as `attn_factor` beside "yarn". INVALID_ARGUMENT for another type, an unknown key or a value
// out of range, and for a missing rope_theta without a default.
absl::StatusOr<RopeConfig> ReadRopeConfig(const ConfigReader& root, const RopeDefaults& defaults,
                                          std::vector<std::string>* ignored);

// Returns the number of positions that a model with `max_position_embeddings` has. Published
// recipes of "linear" and "yarn" leave that key at the length before stretching; the others state
// the length after it.
int64_t LongestPath(const RopeConfig& rope, int64_t max_position_embeddings);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_ROPE_CONFIG_H_
