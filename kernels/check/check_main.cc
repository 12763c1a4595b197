// Checks all kernels on the current device. Usage: `kernels_check [seed] [forests] [max tokens]`.
// Exits with 0 if everything passed, 1 if a check failed, and 2 on a CUDA error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kernels/check/attention_check.h"
#include "kernels/check/device_buffer.h"
#include "kernels/check/layer_check.h"
#include "kernels/check/product_check.h"
#include "kernels/device.h"

int main(int argc, char** argv) {
  using canopy::kernels::check::Require;
  canopy::kernels::check::AttentionCheckOptions options;
  if (argc > 1) {
    options.seed = static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10));
  }
  if (argc > 2) {
    options.forests = static_cast<int32_t>(std::strtol(argv[2], nullptr, 10));
  }
  if (argc > 3) {
    options.max_tokens = static_cast<int32_t>(std::strtol(argv[3], nullptr, 10));
  }
  if (!canopy::kernels::IsBuilt()) {
    std::fprintf(stderr, "built without nvcc: there are no kernels to check\n");
    return 2;
  }
  canopy::kernels::DeviceInfo device;
  Require(canopy::kernels::Init(&device), "Init");
  std::printf("compute capability %d, %d multiprocessors, seed %u\n", device.compute_capability,
              device.num_multiprocessors, options.seed);
  const int32_t rounds = std::min(options.forests, 60);
  int64_t failures = canopy::kernels::check::CheckLayers(options.seed, rounds);
  failures += canopy::kernels::check::CheckProducts(options.seed, rounds / 4, device);
  failures += canopy::kernels::check::CheckAttention(options, device);
  std::printf("%lld failed\n", static_cast<long long>(failures));
  return failures == 0 ? 0 : 1;
}
