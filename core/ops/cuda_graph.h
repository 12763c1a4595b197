// CUDA graphs recorded by LibTorch, and the free memory of the device.
#ifndef CORE_OPS_CUDA_GRAPH_H_
#define CORE_OPS_CUDA_GRAPH_H_

#include <cstdint>
#include <memory>

#include "core/ops/graph_recorder.h"

namespace canopy {

// Returns a recorder for the device that is current at the first call of Record; later calls must
// have the same current device. All graphs of a recorder share one stream and one memory pool. With
// a stream per graph, each would need its own cuBLAS workspace and its own memory for temporaries.
// In a build without CUDA, Record throws.
std::unique_ptr<GraphRecorder> MakeCudaGraphRecorder();

// Returns the bytes that are free on the current device, for all processes; 0 in a build without
// CUDA. Throws LibTorch's errors.
int64_t FreeDeviceBytes();

}  // namespace canopy

#endif  // CORE_OPS_CUDA_GRAPH_H_
