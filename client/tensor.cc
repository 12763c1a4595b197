#include "client/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace canopy::client {
namespace {

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

float FromFloat32Bits(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float FromFloat16Bits(uint32_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = static_cast<int>((bits >> 10U) & 0x1FU);
  const auto mantissa = static_cast<float>(bits & 0x3FFU);
  if (exponent == 0x1F) {
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  // Exponent 0 marks a subnormal number: it has no hidden bit, and the exponent of the smallest
  // normal number.
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(mantissa + 1024.0F, exponent - 25);
}

}  // namespace

size_t BytesPerElement(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_FLOAT32:
      return 4;
    case v1::DTYPE_BFLOAT16:
    case v1::DTYPE_FLOAT16:
      return 2;
    default:
      return 0;
  }
}

float ElementAt(absl::string_view data, v1::DType dtype, size_t index) {
  const size_t size_bytes = BytesPerElement(dtype);
  const uint32_t bits = LittleEndian(data.substr(index * size_bytes, size_bytes));
  switch (dtype) {
    case v1::DTYPE_BFLOAT16:
      return FromFloat32Bits(bits << 16U);
    case v1::DTYPE_FLOAT16:
      return FromFloat16Bits(bits);
    default:
      return FromFloat32Bits(bits);
  }
}

bool AllFinite(absl::string_view data, v1::DType dtype) {
  const size_t size_bytes = BytesPerElement(dtype);
  // The exponent is all ones if the number is not finite. It is 5 bits of the top byte of a
  // float16, and 7 bits of the top byte and one of the next byte for the other types.
  const unsigned top_mask = dtype == v1::DTYPE_FLOAT16 ? 0x7C : 0x7F;
  const unsigned next_mask = dtype == v1::DTYPE_FLOAT16 ? 0 : 0x80;
  bool finite = true;
  for (size_t top = size_bytes - 1; top < data.size(); top += size_bytes) {
    const bool top_full = (static_cast<unsigned char>(data[top]) & top_mask) == top_mask;
    const bool next_full = (static_cast<unsigned char>(data[top - 1]) & next_mask) == next_mask;
    finite &= !(top_full & next_full);
  }
  return finite;
}

}  // namespace canopy::client
