#include <cudaTypedefs.h>

#include <atomic>
#include <cstdint>

#include "kernels/primitives/tensor_map.h"

namespace canopy::kernels {
namespace {

// The driver's encoder, looked up by Init, so that binaries do not have to link the driver.
std::atomic<PFN_cuTensorMapEncodeTiled_v12000> encode_tiled{nullptr};

}  // namespace

cudaError_t InitTensorMaps() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) {
    return error;
  }
  if (found != cudaDriverEntryPointSuccess) {
    return cudaErrorNotSupported;
  }
  encode_tiled.store(reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry),
                     std::memory_order_release);
  return cudaSuccess;
}

cudaError_t EncodeTensorMap(const void* data, DataType type, const MapShape& shape,
                            CUtensorMap* map) {
  const auto encode = encode_tiled.load(std::memory_order_acquire);
  if (encode == nullptr || type == DataType::kFloat32) {
    return cudaErrorNotSupported;
  }
  cuuint64_t byte_strides[4];
  for (uint32_t i = 0; i + 1 < shape.rank; ++i) {
    byte_strides[i] = shape.strides[i] * 2;
  }
  const cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
  const CUresult result =
      encode(map,
             type == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                        : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             shape.rank, const_cast<void*>(data), reinterpret_cast<const cuuint64_t*>(shape.sizes),
             byte_strides, shape.box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace canopy::kernels
