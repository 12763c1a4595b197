// Records a sequence of device work once and launches it again with one call. This pays for
// forwards so small that launching their kernels one by one takes longer than running them. It is
// an interface, so that its users can be tested without a GPU.
#ifndef CORE_OPS_GRAPH_RECORDER_H_
#define CORE_OPS_GRAPH_RECORDER_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace canopy {

// Must be used from one thread. Throws LibTorch's errors.
class RecordedGraph {
 public:
  virtual ~RecordedGraph() = default;

  // Enqueues the recorded work on the current stream.
  virtual void Replay() = 0;
};

// Must be used from one thread. Must outlive the graphs that it records. These graphs must never
// run at the same time. Throws LibTorch's errors.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  // Runs `body` once, so that objects created on first use exist, then runs it again and records
  // it. `body` must only use tensors that it allocates itself or that outlive the graph, and must
  // not wait for the device. Recording takes milliseconds. If `body` or the recording fails, the
  // error is thrown, and Record may be called again.
  virtual std::unique_ptr<RecordedGraph> Record(const std::function<void()>& body) = 0;

  // Returns the bytes that are free on the device, for all processes.
  virtual int64_t FreeBytes() const = 0;
};

}  // namespace canopy

#endif  // CORE_OPS_GRAPH_RECORDER_H_
