// What Init of device.h does for the products with epilogues, on devices of compute capability 9.0.
#ifndef KERNELS_PRODUCT_PRODUCTS_HOPPER_H_
#define KERNELS_PRODUCT_PRODUCTS_HOPPER_H_

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Once a device, before the first launch.
cudaError_t InitGatedProduct();
cudaError_t InitHeadProduct();
cudaError_t InitLogitProduct();

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_PRODUCTS_HOPPER_H_
