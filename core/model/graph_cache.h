// Which small forwards run as recorded graphs, and when each graph is recorded. Knows nothing of
// what a graph is: core/model/fused_backend.h records and replays them.
#ifndef CORE_MODEL_GRAPH_CACHE_H_
#define CORE_MODEL_GRAPH_CACHE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace canopy {

struct GraphLimits {
  // The number of tokens up to which forwards run as graphs. Measured on one H200 (2026-11-30): 164
  // tokens take 1.40 ms as a graph and 2.8 ms without; from 920 tokens on the device is the slower
  // part.
  int32_t max_tokens = 1024;
  // Once graphs take this much device memory, no more are recorded, and sizes that have none run
  // without. Graphs are never evicted.
  int64_t max_bytes = int64_t{1} << 30;
};

// Returns the size of the graph for a forward of `tokens` tokens: the cache's key. Sizes are few,
// and little more than `tokens`.
inline int32_t GraphSize(int32_t tokens) {
  const int32_t step = tokens <= 512 ? 32 : 64;
  return (tokens + step - 1) / step * step;
}

// Returns the number of sizes that forwards of at most `max_tokens` tokens have.
inline int64_t NumGraphSizes(int32_t max_tokens) {
  int64_t count = 0;
  for (int32_t size = 0; size < max_tokens; size = GraphSize(size + 1)) {
    ++count;
  }
  return count;
}

// Owns the graphs of one model. One thread finds and records; num_graphs and graph_bytes may be
// read from any.
template <typename Graph>
class GraphCache {
 public:
  // Records the graph of forwards of `size` tokens. May throw.
  using Record = std::function<std::unique_ptr<Graph>(int32_t size)>;
  // Returns the device's free memory, which tells what a graph takes. May throw.
  using FreeBytes = std::function<int64_t()>;

  GraphCache(const GraphLimits& limits, Record record, FreeBytes free_bytes)
      : limits_(limits), record_(std::move(record)), free_bytes_(std::move(free_bytes)) {}

  // Returns the graph for forwards of `tokens` tokens, recorded by the first call for its size;
  // null if a limit is reached. Passes on what `record` throws; then the cache is as it was, and
  // the next call tries again.
  Graph* FindOrRecord(int32_t tokens) {
    if (tokens > limits_.max_tokens) {
      return nullptr;
    }
    const int32_t size = GraphSize(tokens);
    if (const auto found = graphs_.find(size); found != graphs_.end()) {
      return found->second.get();
    }
    if (graph_bytes() >= limits_.max_bytes) {
      return nullptr;
    }
    const int64_t free_before = free_bytes_();
    std::unique_ptr<Graph> graph = record_(size);
    const int64_t bytes = std::max<int64_t>(free_before - free_bytes_(), 0);
    Graph* const recorded = (graphs_[size] = std::move(graph)).get();
    num_graphs_ = static_cast<int64_t>(graphs_.size());
    graph_bytes_ += bytes;
    return recorded;
  }

  // Records the graph of the smallest size that has none. Returns false if every size has one or
  // the byte limit is reached. Passes on what `record` throws.
  bool RecordNext() {
    int32_t size = GraphSize(1);
    while (size < limits_.max_tokens && graphs_.count(size) > 0) {
      size = GraphSize(size + 1);
    }
    return graphs_.count(size) == 0 && FindOrRecord(std::min(size, limits_.max_tokens)) != nullptr;
  }

  int64_t num_graphs() const { return num_graphs_.load(std::memory_order_relaxed); }
  // The device memory that the graphs and their buffers take.
  int64_t graph_bytes() const { return graph_bytes_.load(std::memory_order_relaxed); }

 private:
  const GraphLimits limits_;
  const Record record_;
  const FreeBytes free_bytes_;
  std::map<int32_t, std::unique_ptr<Graph>> graphs_;  // by size
  std::atomic<int64_t> num_graphs_{0};
  std::atomic<int64_t> graph_bytes_{0};
};

}  // namespace canopy

#endif  // CORE_MODEL_GRAPH_CACHE_H_
