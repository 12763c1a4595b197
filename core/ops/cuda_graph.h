// CUDA graphs as recorded by LibTorch, and the device's free memory.
#ifndef CORE_OPS_CUDA_GRAPH_H_
#define CORE_OPS_CUDA_GRAPH_H_

#include <cstdint>
#include <memory>

#include "core/ops/graph_recorder.h"

namespace canopy {

// Records on the device that is current at the first call of Record, as it must be at every later
// one. All its graphs share one stream, because a stream each would cost each of them a workspace
// of cuBLAS, and the memory of what their bodies allocate. In a build without CUDA, Record throws.
std::unique_ptr<GraphRecorder> MakeCudaGraphRecorder();

// Memory that is free on the current device, for all processes; 0 in a build without CUDA. Throws
// LibTorch's errors.
int64_t FreeDeviceBytes();

}  // namespace canopy

#endif  // CORE_OPS_CUDA_GRAPH_H_
