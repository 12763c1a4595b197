// What is asked of rows of logits before they are gone: log-sum-exp, entropy and the range.
#ifndef CORE_OPS_LOGIT_OPS_H_
#define CORE_OPS_LOGIT_OPS_H_

#include <cstdint>

#include "ATen/core/Tensor.h"

namespace canopy {

struct LogitStatsOptions {
  bool log_sum_exp = false;
  bool entropy = false;
  bool range = false;
  float temperature = 1;  // of the first two; > 0
};

// [rows] float32; undefined where not asked for.
struct LogitStats {
  at::Tensor log_sum_exp;  // of logits / temperature
  at::Tensor entropy;      // of softmax(logits / temperature), in nats
  at::Tensor min_logit;    // raw
  at::Tensor max_logit;    // raw
};

// Single logits that are looked up. On the device, [targets] int64 each.
struct LogitTargets {
  at::Tensor rows;
  at::Tensor tokens;
};

// Immutable.
class LogitReader {
 public:
  // Finds out which kernels that read logits once run on `device`; LibTorch's operations do
  // what it does everywhere else, and where gradients are wanted.
  explicit LogitReader(at::Device device);

  // logits [rows, vocab] float32, dense, on the reader's device. Throws LibTorch's errors.
  LogitStats Read(const at::Tensor& logits, const LogitStatsOptions& options) const;

  // Whether ReadProduct takes `weight`: a dense matrix of 16-bit elements on a device with a kernel
  // for the product and all that is read from it.
  bool ReadsProductsWith(const at::Tensor& weight) const;

  // Of logits = hidden x weight^T, summed in float32, which are never stored. hidden [rows, H] of
  // the weight's type, weight [vocab, H], targets' logits raw to `target_logits` [targets] float32.
  // No gradients. Throws LibTorch's errors.
  LogitStats ReadProduct(const at::Tensor& hidden, const at::Tensor& weight,
                         const LogitTargets& targets, const LogitStatsOptions& options,
                         at::Tensor* target_logits) const;

  // Returns the place of each target's logit in its row, [targets] int32: 1 + the number of logits
  // that are larger, or equal and of a lower token. -1 in a row with a logit that is not finite.
  // logits as for Read; no gradients. Throws LibTorch's errors.
  at::Tensor Ranks(const at::Tensor& logits, const LogitTargets& targets) const;

  // Bytes that ReadProduct takes at most for each row.
  static int64_t ProductRowBytes(const at::Tensor& weight);

  // Bytes that Read takes at most for each logit.
  int64_t scratch_bytes() const { return has_kernel_ ? 0 : 8; }

  // Bytes that Ranks takes at most for each logit.
  int64_t rank_scratch_bytes() const { return has_kernel_ ? 0 : 16; }

 private:
  bool has_kernel_ = false;
  bool has_product_ = false;
  int32_t num_multiprocessors_ = 0;
};

}  // namespace canopy

#endif  // CORE_OPS_LOGIT_OPS_H_
