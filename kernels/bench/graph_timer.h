// Times work on the device with a CUDA graph in two regimes: in bursts after a pause, and
// sustained, when the GPU has lowered its clock.
#ifndef KERNELS_BENCH_GRAPH_TIMER_H_
#define KERNELS_BENCH_GRAPH_TIMER_H_

#include <functional>

#include "cuda_runtime_api.h"

namespace canopy::kernels::bench {

struct Timing {
  double burst_ms = 0;      // median of runs of about 4 ms, each after a pause of 50 ms
  double sustained_ms = 0;  // mean of about 100 ms, after 250 ms of back-to-back work
};

// `launch` enqueues the work once on the given stream. Exits the program on CUDA errors. If
// `sustained` is false, sustained_ms is 0.
Timing TimeGraph(const std::function<cudaError_t(cudaStream_t)>& launch, bool sustained = true);

}  // namespace canopy::kernels::bench

#endif  // KERNELS_BENCH_GRAPH_TIMER_H_
