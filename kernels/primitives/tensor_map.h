// Descriptors of arrays for Hopper's copy engine.
#ifndef KERNELS_PRIMITIVES_TENSOR_MAP_H_
#define KERNELS_PRIMITIVES_TENSOR_MAP_H_

#include <cuda.h>

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// An array of up to five dimensions, the dense one first, and the box of it that one copy moves.
struct MapShape {
  uint32_t rank = 0;
  uint64_t sizes[5] = {};
  uint64_t strides[4] = {};  // elements, of dimensions 1..
  uint32_t box[5] = {};
};

// Finds the driver's encoder; once a process, before the first EncodeTensorMap.
cudaError_t InitTensorMaps();

// Elements of 16 bits, the 128-byte swizzle, zeros out of bounds. `data` is aligned to 16 bytes,
// and so are strides and the box's first dimension.
cudaError_t EncodeTensorMap(const void* data, DataType type, const MapShape& shape,
                            CUtensorMap* map);

}  // namespace canopy::kernels

#endif  // KERNELS_PRIMITIVES_TENSOR_MAP_H_
