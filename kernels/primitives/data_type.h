// The element types that kernels support.
#ifndef KERNELS_PRIMITIVES_DATA_TYPE_H_
#define KERNELS_PRIMITIVES_DATA_TYPE_H_

#include <cstdint>

namespace canopy::kernels {

enum class DataType : int32_t { kBFloat16, kFloat16, kFloat32 };

}  // namespace canopy::kernels

#endif  // KERNELS_PRIMITIVES_DATA_TYPE_H_
