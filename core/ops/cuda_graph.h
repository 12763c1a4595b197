// A recorded sequence of kernels that starts with one call: for forwards so small that starting
// kernels one by one takes longer than running them.
#ifndef CORE_OPS_CUDA_GRAPH_H_
#define CORE_OPS_CUDA_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace canopy {

// The stream that graphs are recorded on and the memory of what their bodies allocate, shared by
// graphs of one device that never run at the same time: a stream each would cost each of them a
// workspace of cuBLAS. Used from one thread. Throws LibTorch's errors.
class CudaGraphMemory {
 public:
  // On the current device.
  CudaGraphMemory();
  ~CudaGraphMemory();
  CudaGraphMemory(const CudaGraphMemory&) = delete;
  CudaGraphMemory& operator=(const CudaGraphMemory&) = delete;

 private:
  friend class CudaGraph;
  struct State;
  std::unique_ptr<State> state_;
};

// Used from one thread. Throws LibTorch's errors.
class CudaGraph {
 public:
  // Runs `body` once, so that whatever is made on first use is made, then records it. `body` must
  // only work with tensors that outlive the graph or that it allocates itself, and must not wait
  // for the device. Takes milliseconds. `memory` must outlive the graph.
  CudaGraph(CudaGraphMemory& memory, const std::function<void()>& body);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Queues what was recorded on the current stream.
  void Replay();

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

// Memory that is free on the current device, for all processes; 0 in a build without CUDA. Throws
// LibTorch's errors.
int64_t FreeDeviceBytes();

}  // namespace canopy

#endif  // CORE_OPS_CUDA_GRAPH_H_
