// Decides which small forwards run as recorded graphs, and records each graph on first use. It does
// not depend on what a graph is; core/model/fused_backend.h records and replays them.
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
  // Forwards of at most this many tokens run as graphs. Measured on one H200 (2026-11-30): a
  // forward of 164 tokens takes 1.40 ms as a graph and 2.8 ms without. From 920 tokens on, the
  // device takes longer than the launches.
  int32_t max_tokens = 1024;
  // When the graphs use this much device memory, no more are recorded, and forwards of other sizes
  // run without a graph. Graphs are never evicted.
  int64_t max_bytes = int64_t{1} << 30;
};

// Returns the graph size for a forward of `tokens` tokens, which is the key of the cache. Sizes are
// rounded up so that there are few of them.
inline int32_t GraphSize(int32_t tokens) {
  const int32_t step = tokens <= 512 ? 32 : 64;
  return (tokens + step - 1) / step * step;
}

// Returns the number of graph sizes of forwards with at most `max_tokens` tokens.
inline int64_t NumGraphSizes(int32_t max_tokens) {
  int64_t count = 0;
  for (int32_t size = 0; size < max_tokens; size = GraphSize(size + 1)) {
    ++count;
  }
  return count;
}

// Owns the graphs of one model. Must be used from one thread, except num_graphs and graph_bytes,
// which are thread-safe.
template <typename Graph>
class GraphCache {
 public:
  // Records the graph of forwards of `size` tokens. May throw.
  using Record = std::function<std::unique_ptr<Graph>(int32_t size)>;
  // Returns the free memory of the device, from which the size of a graph is computed. May throw.
  using FreeBytes = std::function<int64_t()>;

  GraphCache(const GraphLimits& limits, Record record, FreeBytes free_bytes)
      : limits_(limits), record_(std::move(record)), free_bytes_(std::move(free_bytes)) {}

  // Returns the graph for forwards of `tokens` tokens; records it on the first call for its size.
  // Returns null if a limit is reached. If `record` throws, the exception is passed on and the
  // cache is unchanged, so the next call tries again.
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

  // Records the graph of the smallest size that has none. Returns false if every size has a graph
  // or the byte limit is reached. Passes on exceptions of `record`.
  bool RecordNext() {
    int32_t size = GraphSize(1);
    while (size < limits_.max_tokens && graphs_.count(size) > 0) {
      size = GraphSize(size + 1);
    }
    return graphs_.count(size) == 0 && FindOrRecord(std::min(size, limits_.max_tokens)) != nullptr;
  }

  int64_t num_graphs() const { return num_graphs_.load(std::memory_order_relaxed); }
  // Returns the device memory used by the graphs and their buffers.
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
