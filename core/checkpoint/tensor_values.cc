#include "core/checkpoint/tensor_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/status_macros.h"

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

bool EqualElements(const TensorView& left, const TensorView& right, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (ElementAt(left, i) != ElementAt(right, i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

absl::StatusOr<bool> EqualValues(const TensorView& left, const TensorView& right,
                                 const WantedCheck& check_wanted) {
  const bool same_type = left.dtype == right.dtype;
  if (left.shape != right.shape || !(same_type || (IsFloat(left.dtype) && IsFloat(right.dtype)))) {
    return false;
  }
  const auto element_bytes = static_cast<size_t>(DTypeBytes(left.dtype));
  const size_t elements = left.bytes.size() / element_bytes;
  const size_t step = kStepBytes / element_bytes;
  for (size_t begin = 0; begin < elements; begin += step) {
    if (check_wanted) {
      CANOPY_RETURN_IF_ERROR(check_wanted());
    }
    const size_t end = std::min(begin + step, elements);
    const size_t first_byte = begin * element_bytes;
    const size_t num_bytes = (end - begin) * element_bytes;
    if (same_type ? left.bytes.subspan(first_byte, num_bytes) !=
                        right.bytes.subspan(first_byte, num_bytes)
                  : !EqualElements(left, right, begin, end)) {
      return false;
    }
  }
  return true;
}

}  // namespace canopy
