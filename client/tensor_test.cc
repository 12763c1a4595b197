#include "client/tensor.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace canopy::client {
namespace {

// The bytes and values are from the IEEE 754 tables of each format.
TEST(TensorTest, ReadsFloat32) {
  const std::string data("\0\0\x80\x3F\0\0\x20\xC0\0\0\xC0\x7F", 12);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT32, 0), 1.0F);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT32, 1), -2.5F);
  EXPECT_TRUE(std::isnan(ElementAt(data, v1::DTYPE_FLOAT32, 2)));
}

TEST(TensorTest, ReadsBfloat16) {
  const std::string data("\x80\x3F\x20\xC0\x80\x7F", 6);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_BFLOAT16, 0), 1.0F);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_BFLOAT16, 1), -2.5F);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_BFLOAT16, 2), INFINITY);
}

TEST(TensorTest, ReadsFloat16) {
  const std::string data("\x00\x3C\x00\xC1\xFF\x7B\x01\x00\x00\x04\x00\x80\x00\xFC\x00\x7E", 16);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT16, 0), 1.0F);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT16, 1), -2.5F);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT16, 2), 65504.0F);
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT16, 3), std::ldexp(1.0F, -24));
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT16, 4), std::ldexp(1.0F, -14));
  EXPECT_TRUE(std::signbit(ElementAt(data, v1::DTYPE_FLOAT16, 5)));
  EXPECT_EQ(ElementAt(data, v1::DTYPE_FLOAT16, 6), -INFINITY);
  EXPECT_TRUE(std::isnan(ElementAt(data, v1::DTYPE_FLOAT16, 7)));
}

TEST(TensorTest, FindsWhatIsNotFinite) {
  // Every upper half of a float32 is a bfloat16, and every pair of bytes a float16. All of them are
  // compared with the decoder and the standard library.
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const std::string half = {static_cast<char>(bits & 0xFFU), static_cast<char>(bits >> 8U)};
    for (const v1::DType dtype : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
      EXPECT_EQ(AllFinite(half, dtype), std::isfinite(ElementAt(half, dtype, 0))) << bits;
      EXPECT_EQ(AllFinite(std::string(2, '\0') + half, dtype), AllFinite(half, dtype)) << bits;
    }
    const std::string whole = std::string(2, '\0') + half;
    EXPECT_EQ(AllFinite(whole, v1::DTYPE_FLOAT32),
              std::isfinite(ElementAt(whole, v1::DTYPE_FLOAT32, 0)))
        << bits;
  }
  EXPECT_TRUE(AllFinite("", v1::DTYPE_FLOAT32));
}

TEST(TensorTest, KnowsElementSizes) {
  EXPECT_EQ(BytesPerElement(v1::DTYPE_FLOAT32), 4);
  EXPECT_EQ(BytesPerElement(v1::DTYPE_BFLOAT16), 2);
  EXPECT_EQ(BytesPerElement(v1::DTYPE_FLOAT16), 2);
  EXPECT_EQ(BytesPerElement(static_cast<v1::DType>(7)), 0);
}

}  // namespace
}  // namespace canopy::client
