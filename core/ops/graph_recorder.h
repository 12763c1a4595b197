// Records a sequence of device work once and starts it again with one call: for forwards so small
// that starting kernels one by one takes longer than running them. An interface, so that what is
// built on it is tested where there is no GPU.
#ifndef CORE_OPS_GRAPH_RECORDER_H_
#define CORE_OPS_GRAPH_RECORDER_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace canopy {

// Used from one thread. Throws LibTorch's errors.
class RecordedGraph {
 public:
  virtual ~RecordedGraph() = default;

  // Queues what was recorded on the current stream.
  virtual void Replay() = 0;
};

// Used from one thread. Outlives the graphs that it records, which never run at the same time.
// Throws LibTorch's errors.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  // Runs `body` once, so that whatever is made on first use is made, then records it. `body` must
  // only work with tensors that outlive the graph or that it allocates itself, and must not wait
  // for the device. Takes milliseconds. If `body` or the recording fails, the error is thrown and
  // the next call starts afresh.
  virtual std::unique_ptr<RecordedGraph> Record(const std::function<void()>& body) = 0;

  // Returns the memory that is free on the device, for all processes.
  virtual int64_t FreeBytes() const = 0;
};

}  // namespace canopy

#endif  // CORE_OPS_GRAPH_RECORDER_H_
