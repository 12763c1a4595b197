// Four small tensors of different types and shapes, one of them without elements.
#ifndef CORE_CHECKPOINT_TESTING_FOUR_TENSORS_H_
#define CORE_CHECKPOINT_TESTING_FOUR_TENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Returns a view of the text's bytes.
absl::Span<const uint8_t> Bytes(absl::string_view text);

// Returns tensors whose bytes live as long as the process. They are not in the order of their
// names.
std::vector<TensorView> FourTensors();

}  // namespace canopy

#endif  // CORE_CHECKPOINT_TESTING_FOUR_TENSORS_H_
