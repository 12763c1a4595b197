// Checks weights before they are used: their memory, and that all values are finite.
#ifndef CORE_CHECKPOINT_WEIGHT_CHECK_H_
#define CORE_CHECKPOINT_WEIGHT_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Returns the bytes of the model's weights with elements of `element_bytes`, computed from the
// source's headers alone. A head that repeats the embedding is not counted.
int64_t LoadedBytes(const WeightSource& source, const ModelConfig& config, int64_t element_bytes);

// Returns RESOURCE_EXHAUSTED with both numbers if `needed` bytes exceed `available`. `where` names
// the memory, such as "host memory".
absl::Status CheckMemory(int64_t needed, int64_t available, absl::string_view where);

// Returns DATA_LOSS naming the first tensor, and the position in it, that is infinite or NaN. Reads
// every byte. Calls `check_wanted` before each step and returns its error.
absl::Status CheckFinite(const WeightMap& weights, const WantedCheck& check_wanted = nullptr);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_WEIGHT_CHECK_H_
