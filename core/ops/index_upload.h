// Uploads host index arrays to the device in one copy, and copies results back to the host.
#ifndef CORE_OPS_INDEX_UPLOAD_H_
#define CORE_OPS_INDEX_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "c10/core/Device.h"

namespace canopy {

// Usage: Add all arrays, then call Upload once. Not thread-safe. Throws LibTorch's errors.
class IndexUpload {
 public:
  // Returns the index of the array in Upload's result. `array` must live until Upload returns.
  size_t Add(absl::Span<const int32_t> array);

  // Returns int32 tensors [array size] in the order of Add. They are views of one buffer on
  // `device`. On CUDA the copy is enqueued on the current stream and reads pinned memory.
  std::vector<at::Tensor> Upload(at::Device device) const;

 private:
  std::vector<absl::Span<const int32_t>> arrays_;
};

// Waits until the device has computed `tensor`, and returns a copy of it on the host. On CUDA the
// copy uses pinned memory, which is many times faster than pageable memory. Throws LibTorch's
// errors.
at::Tensor CopyToHost(const at::Tensor& tensor);

}  // namespace canopy

#endif  // CORE_OPS_INDEX_UPLOAD_H_
