// Element types on the host: bits to double and back.
#ifndef KERNELS_CHECK_ELEMENT_CODEC_H_
#define KERNELS_CHECK_ELEMENT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/primitives/data_type.h"

namespace canopy::kernels::check {

size_t ElementBytes(DataType type);

// The spacing of values near 1: twice the largest relative error of one rounding.
double Epsilon(DataType type);

// `bits` holds count elements, packed.
std::vector<double> Decode(const std::vector<uint8_t>& bits, DataType type);

// Rounds to nearest even.
std::vector<uint8_t> Encode(const std::vector<double>& values, DataType type);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_ELEMENT_CODEC_H_
