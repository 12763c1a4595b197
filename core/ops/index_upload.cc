#include "core/ops/index_upload.h"

#include <algorithm>

#include "ATen/ops/empty.h"

namespace canopy {

size_t IndexUpload::Add(absl::Span<const int32_t> array) {
  arrays_.push_back(array);
  return arrays_.size() - 1;
}

std::vector<at::Tensor> IndexUpload::Upload(at::Device device) const {
  int64_t total = 0;
  for (const absl::Span<const int32_t> array : arrays_) {
    total += static_cast<int64_t>(array.size());
  }
  const auto options = at::TensorOptions().dtype(at::kInt).pinned_memory(device.is_cuda());
  at::Tensor buffer = at::empty({total}, options);
  int32_t* place = buffer.mutable_data_ptr<int32_t>();
  for (const absl::Span<const int32_t> array : arrays_) {
    place = std::copy(array.begin(), array.end(), place);
  }
  if (!device.is_cpu()) {
    buffer = buffer.to(device, /*non_blocking=*/true);
  }
  std::vector<at::Tensor> tensors;
  tensors.reserve(arrays_.size());
  int64_t offset = 0;
  for (const absl::Span<const int32_t> array : arrays_) {
    const auto size = static_cast<int64_t>(array.size());
    tensors.push_back(buffer.narrow(0, offset, size));
    offset += size;
  }
  return tensors;
}

at::Tensor CopyToHost(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) {
    return tensor.cpu();
  }
  at::Tensor host =
      at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  host.copy_(tensor);
  return host;
}

}  // namespace canopy
