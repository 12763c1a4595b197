// The steps of Init (device.h) for the products with fused epilogues on compute capability 9.0.
#ifndef KERNELS_PRODUCT_PRODUCTS_HOPPER_H_
#define KERNELS_PRODUCT_PRODUCTS_HOPPER_H_

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// Call these once per device, before the first launch.
cudaError_t InitGatedProduct();
cudaError_t InitHeadProduct();
cudaError_t InitLogitProduct();

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_PRODUCTS_HOPPER_H_
