#include "kernels/check/element_codec.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::kernels::check {
namespace {

uint16_t Bits(double value, DataType type) {
  const std::vector<uint8_t> bytes = Encode({value}, type);
  uint16_t bits;
  std::memcpy(&bits, bytes.data(), sizeof(bits));
  return bits;
}

TEST(ElementCodec, RoundsToNearestEven) {
  EXPECT_EQ(Bits(1, DataType::kFloat16), 0x3C00);
  EXPECT_EQ(Bits(-2, DataType::kFloat16), 0xC000);
  EXPECT_EQ(Bits(1 + 0x1p-11, DataType::kFloat16), 0x3C00);
  EXPECT_EQ(Bits(1 + 3 * 0x1p-11, DataType::kFloat16), 0x3C02);
  EXPECT_EQ(Bits(0x1p-24, DataType::kFloat16), 0x0001);
  EXPECT_EQ(Bits(65504, DataType::kFloat16), 0x7BFF);
  EXPECT_EQ(Bits(1, DataType::kBFloat16), 0x3F80);
  EXPECT_EQ(Bits(1 + 0x1p-8, DataType::kBFloat16), 0x3F80);
  EXPECT_EQ(Bits(1 + 3 * 0x1p-8, DataType::kBFloat16), 0x3F82);
}

TEST(ElementCodec, EveryFiniteHalfPrecisionValueSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
      const uint32_t exponent = type == DataType::kFloat16 ? bits >> 10 & 0x1F : bits >> 7 & 0xFF;
      if (exponent == (type == DataType::kFloat16 ? 0x1FU : 0xFFU)) {
        continue;
      }
      const std::vector<uint8_t> bytes = {static_cast<uint8_t>(bits & 0xFF),
                                          static_cast<uint8_t>(bits >> 8)};
      ASSERT_EQ(Encode(Decode(bytes, type), type), bytes) << bits;
    }
  }
}

}  // namespace
}  // namespace canopy::kernels::check
