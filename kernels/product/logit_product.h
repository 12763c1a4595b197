// What is asked of logits = rows x weight^T, without the logits: log-sum-exp, entropy, the range,
// and single ones of them. Devices of compute capability 9.0.
#ifndef KERNELS_PRODUCT_LOGIT_PRODUCT_H_
#define KERNELS_PRODUCT_LOGIT_PRODUCT_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays dense, aligned to 16 bytes; no earlier kernel of the stream may still be writing
// weight. Sums are float32 and stabilised with the true maximum, logarithms natural. A row with a
// logit that is not finite gives log_sum_exp, entropy and a range that are not all finite.
struct LogitProductParams {
  const void* rows = nullptr;               // [num_rows, inner]
  const void* weight = nullptr;             // [columns, inner]
  const int32_t* target_rows = nullptr;     // [num_targets], which logits are wanted
  const int32_t* target_columns = nullptr;  // [num_targets]
  void* workspace = nullptr;                // LogitProductWorkspaceBytes
  float inverse_temperature = 1;            // > 0
  // Outputs, float32, [num_rows] each, or null.
  float* log_sum_exp = nullptr;    // of logits / temperature
  float* entropy = nullptr;        // of softmax(logits / temperature)
  float* min_logit = nullptr;      // raw
  float* max_logit = nullptr;      // raw
  float* target_logits = nullptr;  // [num_targets] raw
  int32_t num_rows = 0;
  int32_t columns = 0;  // > 0
  int32_t inner = 0;    // a multiple of 8
  int32_t num_targets = 0;
  DataType data_type = DataType::kBFloat16;  // or kFloat16
  int32_t num_multiprocessors = 0;           // as DeviceInfo says
};

int64_t LogitProductWorkspaceBytes(int64_t num_rows, int64_t columns);

// cudaErrorInvalidValue for other sizes, cudaErrorNotSupported for another device or type. No rows:
// nothing to do.
cudaError_t LaunchLogitProduct(const LogitProductParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_LOGIT_PRODUCT_H_
