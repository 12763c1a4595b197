#include "core/model/attention_segmented.h"

#include <algorithm>
#include <utility>

#include "ATen/ops/cat.h"
#include "core/ops/attention_ops.h"

namespace canopy {
namespace {

// Gathers source [tokens, heads, head dim] at `index` [rows, length] -> [rows, length, heads, head
// dim].
at::Tensor Gather(const at::Tensor& source, const at::Tensor& index) {
  return source.index_select(0, index.flatten()).unflatten(0, index.sizes());
}

}  // namespace

SegmentedAttention::SegmentedAttention(std::vector<DeviceSegmentGroup> groups, at::Tensor restore,
                                       double dropout, int64_t max_gathered_bytes)
    : groups_(std::move(groups)),
      restore_(std::move(restore)),
      dropout_(dropout),
      max_gathered_bytes_(max_gathered_bytes) {}

at::Tensor SegmentedAttention::Forward(const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v) const {
  // The bytes per gathered key and value. They are counted for all query heads, because some
  // devices expand keys to the query heads.
  const int64_t key_bytes = 2 * q.size(1) * q.size(2) * q.element_size();
  std::vector<at::Tensor> outputs;
  for (const DeviceSegmentGroup& group : groups_) {
    const int64_t chains = group.keys.size(0);
    const int64_t chunk =
        std::max<int64_t>(1, max_gathered_bytes_ / (group.keys.size(1) * key_bytes));
    for (int64_t begin = 0; begin < chains; begin += chunk) {
      const int64_t size = std::min(chunk, chains - begin);
      const at::Tensor keys = group.keys.narrow(0, begin, size);
      outputs.push_back(CausalAttention(Gather(q, group.queries.narrow(0, begin, size)),
                                        Gather(k, keys), Gather(v, keys), dropout_)
                            .flatten(0, 1));
    }
  }
  return at::cat(outputs).index_select(0, restore_);
}

}  // namespace canopy
