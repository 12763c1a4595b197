// Host index arrays that go to the device in one copy, and results that come back in one.
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

// `tensor` on the host, once the device has computed it. On CUDA through pinned memory, which is
// many times faster than without. Throws LibTorch's errors.
at::Tensor CopyToHost(const at::Tensor& tensor);

}  // namespace canopy

#endif  // CORE_OPS_INDEX_UPLOAD_H_
