// Host index arrays that go to the device in one copy.
#ifndef CORE_OPS_INDEX_UPLOAD_H_
#define CORE_OPS_INDEX_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "c10/core/Device.h"

namespace canopy {

// Add all arrays, then Upload once. Not thread-safe. Throws LibTorch's errors.
class IndexUpload {
 public:
  // Where the array will stand in Upload's result. `array` must live until Upload returns.
  size_t Add(absl::Span<const int32_t> array);

  // int32 tensors [array size], in the order of Add: views of one buffer on `device`. On CUDA the
  // copy is queued on the current stream from pinned memory.
  std::vector<at::Tensor> Upload(at::Device device) const;

 private:
  std::vector<absl::Span<const int32_t>> arrays_;
};

}  // namespace canopy

#endif  // CORE_OPS_INDEX_UPLOAD_H_
