#include "core/ops/cuda_graph.h"

#include <cstddef>

#include "c10/util/Exception.h"
#include "core/ops/cuda_stream.h"

#if CANOPY_CUDA_STREAMS
#include "ATen/cuda/CUDAGraph.h"
#include "c10/cuda/CUDAGuard.h"
#endif

namespace canopy {

#if CANOPY_CUDA_STREAMS

struct CudaGraphMemory::State {
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
};

CudaGraphMemory::CudaGraphMemory() : state_(new State) {}

struct CudaGraph::Recording {
  at::cuda::CUDAGraph graph;
};

namespace {

void EndAfterFailure(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const c10::Error&) {
    // What failed first says more.
  }
}

}  // namespace

CudaGraph::CudaGraph(CudaGraphMemory& memory, const std::function<void()>& body)
    : recording_(new Recording) {
  // The default stream cannot be recorded.
  const c10::cuda::CUDAStream stream = memory.state_->stream;
  c10::cuda::getCurrentCUDAStream().synchronize();
  const c10::cuda::CUDAStreamGuard guard(stream);
  body();
  stream.synchronize();
  recording_->graph.capture_begin(memory.state_->pool, cudaStreamCaptureModeThreadLocal);
  try {
    body();
  } catch (...) {
    // Left open, it would hold the allocator in the state of recording.
    EndAfterFailure(recording_->graph);
    throw;
  }
  recording_->graph.capture_end();
}

void CudaGraph::Replay() { recording_->graph.replay(); }

int64_t FreeDeviceBytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
  TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(error));
  return static_cast<int64_t>(free_bytes);
}

#else

struct CudaGraphMemory::State {};

CudaGraphMemory::CudaGraphMemory() = default;

struct CudaGraph::Recording {};

CudaGraph::CudaGraph(CudaGraphMemory& /*memory*/, const std::function<void()>& /*body*/) {
  TORCH_CHECK(false, "this build has no CUDA graphs");
}

void CudaGraph::Replay() {}

int64_t FreeDeviceBytes() { return 0; }

#endif

CudaGraphMemory::~CudaGraphMemory() = default;
CudaGraph::~CudaGraph() = default;

}  // namespace canopy
