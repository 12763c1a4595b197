#include "kernels/check/element_codec.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace canopy::kernels::check {
namespace {

double DecodeHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return mantissa == 0 ? sign * INFINITY : NAN;
  }
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

uint16_t EncodeHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (size >= 65520) {
    return sign | 0x7C00;
  }
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  // nearbyint rounds halves to even. A carry into the exponent is handled by the sum below.
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  const int biased = size < 0x1p-14 ? 0 : exponent + 14;
  return static_cast<uint16_t>(sign | (biased * 1024 + mantissa));
}

uint16_t EncodeBFloat16(double value) {
  const auto single = static_cast<float>(value);
  uint32_t word;
  std::memcpy(&word, &single, sizeof(word));
  word += 0x7FFF + (word >> 16 & 1);
  return static_cast<uint16_t>(word >> 16);
}

}  // namespace

size_t ElementBytes(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

double Epsilon(DataType type) {
  if (type == DataType::kFloat32) {
    return 0x1p-23;
  }
  return type == DataType::kFloat16 ? 0x1p-10 : 0x1p-7;
}

std::vector<double> Decode(const std::vector<uint8_t>& bits, DataType type) {
  const size_t bytes = ElementBytes(type);
  std::vector<double> values(bits.size() / bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, &bits[i * bytes], bytes);
    if (type == DataType::kFloat16) {
      values[i] = DecodeHalf(static_cast<uint16_t>(word));
      continue;
    }
    if (type == DataType::kBFloat16) {
      word <<= 16;
    }
    float single;
    std::memcpy(&single, &word, sizeof(single));
    values[i] = single;
  }
  return values;
}

std::vector<uint8_t> Encode(const std::vector<double>& values, DataType type) {
  const size_t bytes = ElementBytes(type);
  std::vector<uint8_t> bits(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DataType::kFloat32) {
      const auto single = static_cast<float>(values[i]);
      std::memcpy(&bits[i * bytes], &single, bytes);
    } else {
      const uint16_t half =
          type == DataType::kFloat16 ? EncodeHalf(values[i]) : EncodeBFloat16(values[i]);
      std::memcpy(&bits[i * bytes], &half, bytes);
    }
  }
  return bits;
}

}  // namespace canopy::kernels::check
