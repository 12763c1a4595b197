#include "core/model/tensor_values.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace canopy {
namespace {

// Returns the value of a number stored in half precision.
float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  float value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Returns an element of a tensor of F32, BF16 or F16.
float ElementAt(const TensorView& tensor, size_t index) {
  if (tensor.dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + index * sizeof(bits), sizeof(bits));
  if (tensor.dtype == DType::kFloat16) {
    return HalfToFloat(bits);
  }
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

}  // namespace

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

bool EqualValues(const TensorView& left, const TensorView& right) {
  if (left.shape != right.shape) {
    return false;
  }
  if (left.dtype == right.dtype) {
    return left.bytes == right.bytes;
  }
  if (!IsFloat(left.dtype) || !IsFloat(right.dtype)) {
    return false;
  }
  const size_t elements = left.bytes.size() / static_cast<size_t>(DTypeBytes(left.dtype));
  for (size_t i = 0; i < elements; ++i) {
    if (ElementAt(left, i) != ElementAt(right, i)) {
      return false;
    }
  }
  return true;
}

}  // namespace canopy
