// Checks every instance of tree attention on random ragged forests.
#ifndef KERNELS_CHECK_ATTENTION_CHECK_H_
#define KERNELS_CHECK_ATTENTION_CHECK_H_

#include <cstdint>

#include "kernels/device.h"

namespace canopy::kernels::check {

struct AttentionCheckOptions {
  uint32_t seed = 1;
  int32_t forests = 1000;
  int32_t max_tokens = 3000;
};

// Runs the checks, prints a table of worst cases and each failure, and returns the number of
// failures. Outputs are poisoned before each launch, and inputs are NaN outside the tokens. Each
// launch runs twice and must give the same bits. The error may be at most twice that of the plain
// 16-bit implementation.
int64_t CheckAttention(const AttentionCheckOptions& options, const DeviceInfo& device);

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_ATTENTION_CHECK_H_
