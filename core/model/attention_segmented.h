// Single-child chains grouped by start depth: one causal call a group, no mask over the forest.
#ifndef CORE_MODEL_ATTENTION_SEGMENTED_H_
#define CORE_MODEL_ATTENTION_SEGMENTED_H_

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "core/model/attention_backend.h"

namespace canopy {

// One SegmentGroup with its indices on the device.
struct DeviceSegmentGroup {
  at::Tensor queries;  // [chains, query length] int32, grid slots
  at::Tensor keys;     // [chains, start depth + query length] int32: ancestors, then the queries
};

// Gathers keys and values of every chain's ancestors, so a group runs in chunks of chains that
// keep what is gathered under a limit.
class SegmentedAttention : public AttentionBackend {
 public:
  // Each chain gathers its ancestors anew: unbounded, a request of a few MB would ask for hundreds
  // of GB.
  static constexpr int64_t kMaxGatheredBytes = int64_t{1} << 30;

  // `restore` [tokens] int32: where a slot's output stands among the groups' rows, concatenated.
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
