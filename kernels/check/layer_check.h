// Checks the small layer kernels against the double-precision reference.
#ifndef KERNELS_CHECK_LAYER_CHECK_H_
#define KERNELS_CHECK_LAYER_CHECK_H_

#include <cstdint>

namespace canopy::kernels::check {

// Runs `rounds` random shapes of every kernel and type with poisoned outputs. Prints the worst
// errors and each failure, and returns the number of failures.
int64_t CheckLayers(uint32_t seed, int32_t rounds);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_LAYER_CHECK_H_
