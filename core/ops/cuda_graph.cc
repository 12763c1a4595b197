#include "core/ops/cuda_graph.h"

#include <cstddef>
#include <functional>
#include <optional>

#include "c10/util/Exception.h"
#include "core/ops/cuda_stream.h"

#if CANOPY_CUDA_STREAMS
#include "ATen/cuda/CUDAGraph.h"
#include "c10/cuda/CUDAGuard.h"
#endif

namespace canopy {

#if CANOPY_CUDA_STREAMS

namespace {

void EndAfterFailure(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const c10::Error&) {
    // The first error, which the caller throws, is more useful.
  }
}

class CudaGraph final : public RecordedGraph {
 public:
  CudaGraph(const c10::cuda::CUDAStream& stream, at::cuda::MempoolId_t pool,
            const std::function<void()>& body) {
    // Recording is not possible on the default stream.
    c10::cuda::getCurrentCUDAStream().synchronize();
    const c10::cuda::CUDAStreamGuard guard(stream);
    body();
    stream.synchronize();
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      body();
    } catch (...) {
      // An unfinished capture would leave the allocator in recording mode.
      EndAfterFailure(graph_);
      throw;
    }
    graph_.capture_end();
  }

  void Replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

class CudaGraphRecorder final : public GraphRecorder {
 public:
  std::unique_ptr<RecordedGraph> Record(const std::function<void()>& body) override {
    if (!shared_.has_value()) {
      shared_.emplace();
    }
    return std::make_unique<CudaGraph>(shared_->stream, shared_->pool, body);
  }

  int64_t FreeBytes() const override { return FreeDeviceBytes(); }

 private:
  struct Shared {
    c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
  };
  std::optional<Shared> shared_;  // Set by the first call of Record.
};

}  // namespace

std::unique_ptr<GraphRecorder> MakeCudaGraphRecorder() {
  return std::make_unique<CudaGraphRecorder>();
}

int64_t FreeDeviceBytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
  TORCH_CHECK(error == cudaSuccess, "CUDA error: ", cudaGetErrorString(error));
  return static_cast<int64_t>(free_bytes);
}

#else

namespace {

class NoGraphRecorder final : public GraphRecorder {
 public:
  std::unique_ptr<RecordedGraph> Record(const std::function<void()>& /*body*/) override {
    TORCH_CHECK(false, "this build has no CUDA graphs");
  }

  int64_t FreeBytes() const override { return 0; }
};

}  // namespace

std::unique_ptr<GraphRecorder> MakeCudaGraphRecorder() {
  return std::make_unique<NoGraphRecorder>();
}

int64_t FreeDeviceBytes() { return 0; }

#endif

}  // namespace canopy
