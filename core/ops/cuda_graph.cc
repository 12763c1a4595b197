#include "core/ops/cuda_graph.h"

#include "c10/util/Exception.h"
#include "core/ops/cuda_stream.h"

#if CANOPY_CUDA_STREAMS
#include "ATen/cuda/CUDAGraph.h"
#include "c10/cuda/CUDAGuard.h"
#endif

namespace canopy {

#if CANOPY_CUDA_STREAMS

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

CudaGraph::CudaGraph(const std::function<void()>& body) : recording_(new Recording) {
  // The default stream cannot be recorded.
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  c10::cuda::getCurrentCUDAStream().synchronize();
  const c10::cuda::CUDAStreamGuard guard(stream);
  body();
  stream.synchronize();
  recording_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
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

#else

struct CudaGraph::Recording {};

CudaGraph::CudaGraph(const std::function<void()>& /*body*/) {
  TORCH_CHECK(false, "this build has no CUDA graphs");
}

void CudaGraph::Replay() {}

#endif

CudaGraph::~CudaGraph() = default;

}  // namespace canopy
