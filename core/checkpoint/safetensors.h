// Parses the safetensors format: u64 header length, JSON header, tensor data. Files may be hostile,
// so everything in the header is checked against the bytes of the file.
#ifndef CORE_CHECKPOINT_SAFETENSORS_H_
#define CORE_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Returns the offset of the end of the header. `file` may hold only the first eight bytes of a
// file. The result is not checked against the size of the file.
uint64_t SafetensorsHeaderEnd(absl::Span<const uint8_t> file);

// Returns the tensors of a whole file in name order, as views into `file`. Returns DATA_LOSS,
// naming the tensor and the limit, for
// - a header outside the file or over 100 MB;
// - keys other than dtype, shape and data_offsets, or an unknown dtype;
// - a size that overflows or differs from the byte range;
// - ranges that overlap, leave holes or do not end at the end of the file.
absl::StatusOr<std::vector<TensorView>> ParseSafetensors(absl::Span<const uint8_t> file);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_SAFETENSORS_H_
