// Attention over single-child chains, with one causal call per start depth and no forest mask.
#ifndef CORE_MODEL_ATTENTION_SEGMENTED_H_
#define CORE_MODEL_ATTENTION_SEGMENTED_H_

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "core/model/attention_backend.h"

namespace canopy {

// A SegmentGroup with its indices on the device.
struct DeviceSegmentGroup {
  at::Tensor queries;  // [chains, query length] int32, grid slots
  at::Tensor keys;     // [chains, start depth + query length] int32: ancestors, then the queries
};

// Each chain gathers copies of its ancestors' keys and values. A group therefore runs in chunks of
// chains, so that the gathered bytes stay below a limit.
class SegmentedAttention : public AttentionBackend {
 public:
  // Without a limit, a request of a few MB could make the chains gather hundreds of GB.
  static constexpr int64_t kMaxGatheredBytes = int64_t{1} << 30;

  // `restore` [tokens] int32 is the index of each slot's output in the concatenated rows of the
  // groups.
  SegmentedAttention(std::vector<DeviceSegmentGroup> groups, at::Tensor restore, double dropout = 0,
                     int64_t max_gathered_bytes = kMaxGatheredBytes);

  at::Tensor Forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const override;

 private:
  const std::vector<DeviceSegmentGroup> groups_;
  const at::Tensor restore_;
  const double dropout_;
  const int64_t max_gathered_bytes_;
};

}  // namespace canopy

#endif  // CORE_MODEL_ATTENTION_SEGMENTED_H_
