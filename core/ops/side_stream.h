// A CUDA stream for copies to the device that forwards do not wait for.
#ifndef CORE_OPS_SIDE_STREAM_H_
#define CORE_OPS_SIDE_STREAM_H_

#include <memory>

#include "c10/core/Device.h"

namespace canopy {

// During its lifetime, this thread's work on `device` goes to a side stream, of which the process
// has one per device. On a CPU it has no effect. Tensors computed on the side stream may be used on
// other streams after Wait. Throws LibTorch's errors.
class SideStream {
 public:
  explicit SideStream(c10::Device device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  // Blocks until all work on the stream is complete.
  void Wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace canopy

#endif  // CORE_OPS_SIDE_STREAM_H_
