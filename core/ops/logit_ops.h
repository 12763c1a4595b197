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

// Immutable.
class LogitReader {
 public:
  // Finds out whether the kernel that reads logits once runs on `device`; LibTorch's operations do
  // what it does everywhere else, and where gradients are wanted.
  explicit LogitReader(at::Device device);

  // logits [rows, vocab] float32, dense, on the reader's device. Throws LibTorch's errors.
  LogitStats Read(const at::Tensor& logits, const LogitStatsOptions& options) const;

  // Bytes that Read takes at most for each logit.
  int64_t scratch_bytes() const { return has_kernel_ ? 0 : 8; }

 private:
  bool has_kernel_;
};

}  // namespace canopy

#endif  // CORE_OPS_LOGIT_OPS_H_
