// A recorded sequence of kernels that starts with one call: for forwards so small that starting
// kernels one by one takes longer than running them.
#ifndef CORE_OPS_CUDA_GRAPH_H_
#define CORE_OPS_CUDA_GRAPH_H_

#include <functional>
#include <memory>

namespace canopy {

// Used from one thread. Throws LibTorch's errors.
class CudaGraph {
 public:
  // Runs `body` once, so that whatever is made on first use is made, then records it. `body` must
  // only work with tensors that outlive the graph or that it allocates itself, and must not wait
  // for the device. Takes milliseconds.
  explicit CudaGraph(const std::function<void()>& body);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Queues what was recorded on the current stream.
  void Replay();

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace canopy

#endif  // CORE_OPS_CUDA_GRAPH_H_
