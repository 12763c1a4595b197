// Checks the small layer kernels against their double-precision twins.
#ifndef KERNELS_CHECK_LAYER_CHECK_H_
#define KERNELS_CHECK_LAYER_CHECK_H_

#include <cstdint>

namespace canopy::kernels::check {

// `rounds` random shapes of every kernel and type, outputs poisoned. Prints the worst errors and
// each failure; returns how many failed.
int64_t CheckLayers(uint32_t seed, int32_t rounds);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_LAYER_CHECK_H_
