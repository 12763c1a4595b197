// Computes the ranks of single logits in their rows.
#ifndef KERNELS_PRODUCT_LOGIT_RANKS_H_
#define KERNELS_PRODUCT_LOGIT_RANKS_H_

#include <cstdint>

#include "cuda_runtime_api.h"

namespace canopy::kernels {

// All arrays are dense.
struct LogitRanksParams {
  const float* logits = nullptr;            // [rows, columns]
  const int32_t* target_rows = nullptr;     // [num_targets], positions of the logits to rank
  const int32_t* target_columns = nullptr;  // [num_targets]
  // The output, [num_targets]: 1 + the number of logits of the row that are larger, or equal in a
  // lower column. It is -1 in a row with a non-finite logit.
  int32_t* ranks = nullptr;
  int32_t columns = 0;  // > 0
  int32_t num_targets = 0;
};
// Returns cudaErrorInvalidValue if there are no columns. Does nothing if there are no targets.
cudaError_t LaunchLogitRanks(const LogitRanksParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_LOGIT_RANKS_H_
