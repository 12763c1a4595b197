// Descriptors of arrays for Hopper's copy engine (TMA).
#ifndef KERNELS_PRIMITIVES_TENSOR_MAP_H_
#define KERNELS_PRIMITIVES_TENSOR_MAP_H_

#include <cuda.h>

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// An array of up to five dimensions, with the dense dimension first, and the box that one copy
// moves.
struct MapShape {
  uint32_t rank = 0;
  uint64_t sizes[5] = {};
  uint64_t strides[4] = {};  // in elements, of dimensions 1 and up
  uint32_t box[5] = {};
};

// Looks up the driver's encoder. Call it once per process, before the first EncodeTensorMap.
cudaError_t InitTensorMaps();

// Encodes a map of 16-bit elements with the 128-byte swizzle and zeros out of bounds. `data`, the
// strides and the box's first dimension must be aligned to 16 bytes.
cudaError_t EncodeTensorMap(const void* data, DataType type, const MapShape& shape,
                            CUtensorMap* map);

}  // namespace canopy::kernels

#endif  // KERNELS_PRIMITIVES_TENSOR_MAP_H_
