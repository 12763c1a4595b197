// The safetensors format: u64 header length, JSON header, tensor data. Files are treated as
// hostile: everything the header says is checked against the bytes that are there.
#ifndef CORE_CHECKPOINT_SAFETENSORS_H_
#define CORE_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// Bytes from the start of a file to the end of its header, of which `file` may hold the first eight
// alone; unchecked.
uint64_t SafetensorsHeaderEnd(absl::Span<const uint8_t> file);

// The tensors of a whole file in name order, as views into `file`. DATA_LOSS, naming the tensor and
// the limit, for a header outside the file or over 100 MB, anything but the keys dtype, shape and
// data_offsets, an unknown dtype, a size that overflows or differs from the byte range, and ranges
// that overlap, leave holes or do not end with the file.
absl::StatusOr<std::vector<TensorView>> ParseSafetensors(absl::Span<const uint8_t> file);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_SAFETENSORS_H_
