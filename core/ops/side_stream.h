// A CUDA stream beside the one that forwards run on: for copies to the device that no forward is to
// wait for.
#ifndef CORE_OPS_SIDE_STREAM_H_
#define CORE_OPS_SIDE_STREAM_H_

#include <memory>

#include "c10/core/Device.h"

namespace canopy {

// While it lives, this thread's work on `device` goes to the process's one side stream there; on a
// CPU nothing changes. What was made on it may be used elsewhere after Wait. Throws LibTorch's
// errors.
class SideStream {
 public:
  explicit SideStream(c10::Device device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  // Until everything on the stream is done.
  void Wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace canopy

#endif  // CORE_OPS_SIDE_STREAM_H_
