#include "kernels/bench/graph_timer.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/check/device_buffer.h"

namespace canopy::kernels::bench {
namespace {

using check::Require;

class GraphTimer {
 public:
  explicit GraphTimer(const std::function<cudaError_t(cudaStream_t)>& launch) {
    Require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    Require(cudaEventCreate(&begin_), "event");
    Require(cudaEventCreate(&end_), "event");
    Require(launch(stream_), "warm-up");
    Capture(launch, 1);
    const double once_ms = Replay(3) / 3;
    constexpr double kGraphMs = 4;
    launches_ = std::clamp(static_cast<int>(kGraphMs / once_ms), 1, 500);
    Require(cudaGraphExecDestroy(graph_), "destroy");
    Capture(launch, launches_);
    Replay(1);
  }
  ~GraphTimer() {
    cudaGraphExecDestroy(graph_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  GraphTimer(const GraphTimer&) = delete;
  GraphTimer& operator=(const GraphTimer&) = delete;

  Timing Run(bool sustained) {
    std::vector<double> bursts;
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      bursts.push_back(Replay(1) / launches_);
    }
    std::nth_element(bursts.begin(), bursts.begin() + 2, bursts.end());
    Timing timing;
    timing.burst_ms = bursts[2];
    if (!sustained) {
      return timing;
    }
    const double graph_ms = bursts[2] * launches_;
    Replay(static_cast<int>(250 / graph_ms) + 1);
    const int replays = static_cast<int>(100 / graph_ms) + 1;
    timing.sustained_ms = Replay(replays) / replays / launches_;
    return timing;
  }

 private:
  void Capture(const std::function<cudaError_t(cudaStream_t)>& launch, int launches) {
    cudaGraph_t graph;
    Require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < launches; ++i) {
      Require(launch(stream_), "launch");
    }
    Require(cudaStreamEndCapture(stream_, &graph), "capture");
    Require(cudaGraphInstantiate(&graph_, graph, 0), "instantiate");
    Require(cudaGraphDestroy(graph), "destroy");
  }

  double Replay(int times) {
    Require(cudaEventRecord(begin_, stream_), "record");
    for (int i = 0; i < times; ++i) {
      Require(cudaGraphLaunch(graph_, stream_), "replay");
    }
    Require(cudaEventRecord(end_, stream_), "record");
    Require(cudaEventSynchronize(end_), "replay");
    float milliseconds = 0;
    Require(cudaEventElapsedTime(&milliseconds, begin_, end_), "elapsed");
    return milliseconds;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  int launches_ = 1;
};

}  // namespace

Timing TimeGraph(const std::function<cudaError_t(cudaStream_t)>& launch, bool sustained) {
  return GraphTimer(launch).Run(sustained);
}

}  // namespace canopy::kernels::bench
