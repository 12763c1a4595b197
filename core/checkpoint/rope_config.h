// The rotary position embedding that a config.json specifies.
#ifndef CORE_CHECKPOINT_ROPE_CONFIG_H_
#define CORE_CHECKPOINT_ROPE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/checkpoint/config_reader.h"

namespace canopy {

// The largest position that a config may have; it is far above those of published models.
inline constexpr int64_t kMaxPositions = 1 << 24;

// The method that stretches the frequencies of `theta` to longer paths. "dynamic" is not supported:
// its angles depend on the longest path of a batch, so paths would change each other's results.
enum class RopeType { kDefault, kLinear, kYarn, kLlama3 };

// Names and meanings are those of transformers. The fields below the name of a type are read only
// for that type.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 0.0;

  // kLinear, kYarn, kLlama3
  double factor = 1.0;

  // For kYarn and kLlama3: the length that the model was trained on before it was stretched.
  int64_t original_max_position_embeddings = 0;

  // For kYarn: frequencies between the two betas, in rotations over the original length, are
  // blended.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;           // true = rounds the blend's bounds to whole dimensions
  double attention_factor = 1.0;  // factor on cosines and sines

  // kLlama3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
};

// The values of keys that a config.json may omit.
struct RopeDefaults {
  int64_t max_position_embeddings = 0;  // the model's value
  double theta = 0.0;                   // 0 = no default: rope_theta is required
};

// Reads both dialects: `rope_parameters` of transformers 5, and `rope_theta` + `rope_scaling` of
// published folders. Appends to `ignored` the keys that transformers does not read for this type,
// such as `attn_factor` for "yarn". Returns INVALID_ARGUMENT for any other type, for an unknown
// key, for a value out of range, and for a missing rope_theta without a default.
absl::StatusOr<RopeConfig> ReadRopeConfig(const ConfigReader& root, const RopeDefaults& defaults,
                                          std::vector<std::string>* ignored);

// Returns the number of positions of a model with `max_position_embeddings`. Published configs with
// "linear" and "yarn" give the length before stretching in that key; the other types give the
// length after it.
int64_t LongestPath(const RopeConfig& rope, int64_t max_position_embeddings);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_ROPE_CONFIG_H_
