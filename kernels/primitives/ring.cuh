// A position in a ring of buffers in shared memory, and the parity of its barrier phase.
#ifndef KERNELS_PRIMITIVES_RING_CUH_
#define KERNELS_PRIMITIVES_RING_CUH_

#include <cstdint>

namespace canopy::kernels::hopper {

// `parity` is the parity of the phase to wait for.
template <int kSize>
struct Ring {
  int32_t index = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void Advance() {
    if (++index == kSize) {
      index = 0;
      parity ^= 1;
    }
  }
};

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_PRIMITIVES_RING_CUH_
