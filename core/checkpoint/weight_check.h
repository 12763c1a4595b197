// What is looked at before weights are used: how much memory they take, and whether they are
// numbers.
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

// Memory of the model's weights with elements of `element_bytes`, from the source's headers alone.
// A head that repeats the embedding counts for nothing.
int64_t LoadedBytes(const WeightSource& source, const ModelConfig& config, int64_t element_bytes);

// RESOURCE_EXHAUSTED with both numbers unless `needed` bytes are at most `available`. `where` is
// what they are bytes of, such as "host memory".
absl::Status CheckMemory(int64_t needed, int64_t available, absl::string_view where);

// DATA_LOSS naming the first tensor, and place, that holds an infinity or a NaN. Reads every byte.
// Asks `check_wanted` before each step and returns its error.
absl::Status CheckFinite(const WeightMap& weights, const WantedCheck& check_wanted = nullptr);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_WEIGHT_CHECK_H_
