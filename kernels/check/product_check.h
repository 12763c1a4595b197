// Checks the matrix products with fused epilogues on random shapes.
#ifndef KERNELS_CHECK_PRODUCT_CHECK_H_
#define KERNELS_CHECK_PRODUCT_CHECK_H_

#include <cstdint>

#include "kernels/device.h"

namespace canopy::kernels::check {

// Runs `rounds` shapes of each type and tile, prints the worst errors and returns the number of
// failed rounds. Outputs and the memory after every array are poisoned. Does nothing and returns 0
// if the device has no such kernels.
int64_t CheckProducts(uint32_t seed, int32_t rounds, const DeviceInfo& device);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_PRODUCT_CHECK_H_
