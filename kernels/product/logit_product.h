// Computes log-sum-exp, entropy, range and single elements of logits = rows x weight^T without
// storing the logits. Needs compute capability 9.0.
#ifndef KERNELS_PRODUCT_LOGIT_PRODUCT_H_
#define KERNELS_PRODUCT_LOGIT_PRODUCT_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "kernels/primitives/data_type.h"

namespace canopy::kernels {

// All arrays are dense and aligned to 16 bytes. No earlier kernel of the stream may still be
// writing `weight`. Sums are float32 and stabilized with the true maximum; logarithms are natural.
// If a row has a non-finite logit, its log_sum_exp, entropy and range are not all finite.
struct LogitProductParams {
  const void* rows = nullptr;               // [num_rows, inner]
  const void* weight = nullptr;             // [columns, inner]
  const int32_t* target_rows = nullptr;     // [num_targets], positions of the single logits
  const int32_t* target_columns = nullptr;  // [num_targets]
  void* workspace = nullptr;                // LogitProductWorkspaceBytes bytes
  float inverse_temperature = 1;            // > 0
  // Outputs: float32, [num_rows] unless noted, or null.
  float* log_sum_exp = nullptr;    // log-sum-exp of logits / temperature
  float* entropy = nullptr;        // entropy of softmax(logits / temperature)
  float* min_logit = nullptr;      // raw logit
  float* max_logit = nullptr;      // raw logit
  float* target_logits = nullptr;  // [num_targets], raw logits
  int32_t num_rows = 0;
  int32_t columns = 0;  // > 0
  int32_t inner = 0;    // a multiple of 8
  int32_t num_targets = 0;
  DataType data_type = DataType::kBFloat16;  // or kFloat16
  int32_t num_multiprocessors = 0;           // from DeviceInfo
};

int64_t LogitProductWorkspaceBytes(int64_t num_rows, int64_t columns);

// Returns cudaErrorInvalidValue for invalid sizes and cudaErrorNotSupported for an unsupported
// device or type. Does nothing if there are no rows.
cudaError_t LaunchLogitProduct(const LogitProductParams& params, cudaStream_t stream);

}  // namespace canopy::kernels

#endif  // KERNELS_PRODUCT_LOGIT_PRODUCT_H_
