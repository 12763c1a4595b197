// Converts elements between their stored bits and double on the host.
#ifndef KERNELS_CHECK_ELEMENT_CODEC_H_
#define KERNELS_CHECK_ELEMENT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/primitives/data_type.h"

namespace canopy::kernels::check {

size_t ElementBytes(DataType type);

// Returns the spacing of values near 1, which is twice the largest relative error of one rounding.
double Epsilon(DataType type);

// Decodes the packed elements in `bits`.
std::vector<double> Decode(const std::vector<uint8_t>& bits, DataType type);

// Rounds to nearest even.
std::vector<uint8_t> Encode(const std::vector<double>& values, DataType type);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_ELEMENT_CODEC_H_
