#include "core/ops/side_stream.h"

#include <map>

#include "absl/base/const_init.h"
#include "base/mutex.h"
#include "core/ops/cuda_stream.h"

#if CANOPY_CUDA_STREAMS
#include "c10/cuda/CUDAGuard.h"
#endif

namespace canopy {

#if CANOPY_CUDA_STREAMS

namespace {

// Returns one stream per device for all loads. LibTorch's allocator keeps free memory per stream,
// so the next load can reuse the memory of the last one.
c10::cuda::CUDAStream StreamOf(c10::Device device) {
  static Mutex mutex(absl::kConstInit);
  static auto* const streams = new std::map<c10::DeviceIndex, c10::cuda::CUDAStream>();
  const MutexLock lock(&mutex);
  auto found = streams->find(device.index());
  if (found == streams->end()) {
    constexpr bool kHighPriority = false;
    found =
        streams
            ->emplace(device.index(), c10::cuda::getStreamFromPool(kHighPriority, device.index()))
            .first;
  }
  return found->second;
}

}  // namespace

struct SideStream::State {
  explicit State(c10::Device device) : guard(StreamOf(device)) {}
  c10::cuda::CUDAStreamGuard guard;
};

SideStream::SideStream(c10::Device device) {
  if (device.is_cuda()) {
    state_ = std::make_unique<State>(device);
  }
}

void SideStream::Wait() {
  if (state_ != nullptr) {
    state_->guard.current_stream().synchronize();
  }
}

#else

struct SideStream::State {};

SideStream::SideStream(c10::Device /*device*/) {}

void SideStream::Wait() {}

#endif

SideStream::~SideStream() = default;

}  // namespace canopy
