// Generates seeded random weights for any configuration, so that speed and memory can be measured
// without a checkpoint.
#ifndef CORE_CHECKPOINT_SYNTHETIC_H_
#define CORE_CHECKPOINT_SYNTHETIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

inline constexpr int64_t kMaxSyntheticBytes = 40'000'000'000;

// Returns the tensors of ExpectedTensors under their canonical names in float32. Norms are 1 +
// normal noise of standard deviation 1/64; all other values are normal with mean 0 and standard
// deviation 0.02. Value i of a tensor depends only on `seed`, the tensor's name and i, and has the
// same bits on every machine.
//
// Returns RESOURCE_EXHAUSTED if the tensors need more than `max_bytes` or memory is short.
absl::StatusOr<WeightSource> MakeSyntheticWeights(const ModelConfig& config, uint64_t seed = 0,
                                                  int64_t max_bytes = kMaxSyntheticBytes);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_SYNTHETIC_H_
