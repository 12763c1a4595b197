// Statistics of rows of logits: log-sum-exp, entropy, range and ranks.
#ifndef CORE_OPS_LOGIT_OPS_H_
#define CORE_OPS_LOGIT_OPS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace canopy {

struct LogitStatsOptions {
  bool log_sum_exp = false;
  bool entropy = false;
  bool range = false;
  float temperature = 1;  // divides the logits for log_sum_exp and entropy; > 0
};

// Each tensor is [rows] float32, and undefined if it was not requested.
struct LogitStats {
  at::Tensor log_sum_exp;  // log-sum-exp of logits / temperature
  at::Tensor entropy;      // entropy of softmax(logits / temperature), in nats
  at::Tensor min_logit;    // raw logit
  at::Tensor max_logit;    // raw logit
};

// The positions of single logits to read. Both tensors are [targets] int64 on the device.
struct LogitTargets {
  at::Tensor rows;
  at::Tensor tokens;
};

// Immutable.
class LogitReader {
 public:
  // Checks which kernels that read logits in one pass run on `device`. Without a kernel, or if
  // gradients are needed, LibTorch's operations compute the same.
  explicit LogitReader(at::Device device);

  // logits [rows, vocab] float32, dense, on the reader's device. Throws LibTorch's errors.
  LogitStats Read(const at::Tensor& logits, const LogitStatsOptions& options) const;

  // Returns true if ReadProduct supports `weight`: a dense matrix of 16-bit elements, on a device
  // with kernels for the product and its statistics.
  bool ReadsProductsWith(const at::Tensor& weight) const;

  // Returns the statistics of logits = hidden x weight^T, which are summed in float32 and never
  // stored. hidden [rows, H] in the weight's dtype, weight [vocab, H]. Writes the raw logits of the
  // targets to `target_logits` [targets] float32. No gradients. Throws LibTorch's errors.
  LogitStats ReadProduct(const at::Tensor& hidden, const at::Tensor& weight,
                         const LogitTargets& targets, const LogitStatsOptions& options,
                         at::Tensor* target_logits) const;

  // Returns the rank of each target's logit in its row, [targets] int32: 1 + the number of logits
  // that are larger, or equal with a lower token id. The rank is -1 in a row with a non-finite
  // logit. `logits` as for Read. No gradients. Throws LibTorch's errors.
  at::Tensor Ranks(const at::Tensor& logits, const LogitTargets& targets) const;

  // Returns the maximum number of bytes that ReadProduct allocates per row.
  static int64_t ProductRowBytes(const at::Tensor& weight);

  // Returns the maximum number of bytes that Read allocates per logit.
  int64_t scratch_bytes() const { return has_kernel_ ? 0 : 8; }

  // Returns the maximum number of bytes that Ranks allocates per logit.
  int64_t rank_scratch_bytes() const { return has_kernel_ ? 0 : 16; }

 private:
  bool has_kernel_ = false;
  bool has_product_ = false;
  int32_t num_multiprocessors_ = 0;
};

}  // namespace canopy

#endif  // CORE_OPS_LOGIT_OPS_H_
