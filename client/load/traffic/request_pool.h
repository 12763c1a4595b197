// The distinct requests that a load test sends over and over: made once, from a seed or a trace,
// and kept as bytes, so that sending costs no more than copying them.
#ifndef CLIENT_LOAD_TRAFFIC_REQUEST_POOL_H_
#define CLIENT_LOAD_TRAFFIC_REQUEST_POOL_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "canopy/v1/scorer.pb.h"
#include "client/load/traffic/shapes.h"

namespace canopy::client {

struct PooledRequest {
  std::string shape;         // Its name; `trace` for questions that a trace spells out.
  v1::ScoreRequest request;  // Without request_id.
  std::string bytes;         // The same, serialised: an id may be appended as a further field.
  uint64_t questions = 0;
  uint64_t candidates = 0;
  uint64_t input_tokens = 0;   // Sum of path lengths.
  uint64_t unique_tokens = 0;  // Nodes of its tries.
  v1::ScoreResponse expected;  // Verify mode only.
};

// What every request has besides its questions, and what its tokens are drawn from.
struct PoolOptions {
  v1::ScoreRequest head;         // Model, outputs, routing, priority.
  int requests_per_shape = 64;   // Distinct ones; at least 1.
  uint64_t vocab_size = 0;       // Of the model.
  uint64_t max_path_tokens = 0;  // Of the model.
  uint64_t seed = 1;
};

// Thread-compatible; reading is thread-safe once it is made.
class RequestPool {
 public:
  // INVALID_ARGUMENT when a shape's paths are longer than the model takes.
  static absl::StatusOr<RequestPool> FromMix(const std::vector<WeightedShape>& mix,
                                             const PoolOptions& options);

  // JSON lines, each with the instant of sending and a shape, or questions as codec.h reads them:
  //   {"at_ms": 12.5, "shape": "small"}
  //   {"at_ms": 13, "questions": [{"prefix": [5, 6], "candidates": [{"tokens": [7]}]}]}
  // `instants` gets those of all lines, in the order of the pool. INVALID_ARGUMENT with the line.
  static absl::StatusOr<RequestPool> FromTrace(std::istream& input, const PoolOptions& options,
                                               std::vector<absl::Duration>* instants);

  size_t size() const { return requests_.size(); }
  const PooledRequest& at(size_t index) const { return requests_[index]; }
  PooledRequest& at(size_t index) { return requests_[index]; }

  // An index by the shapes' weights; requests of one shape are equally likely.
  size_t Draw(std::mt19937_64* random) const;

 private:
  RequestPool() = default;

  void Add(absl::string_view shape, v1::ScoreRequest request);

  std::vector<PooledRequest> requests_;
  std::vector<double> cumulative_weights_;  // [shapes], of a mix
  size_t requests_per_shape_ = 1;
};

// Field request_id of a ScoreRequest as bytes, to be appended to a request's.
std::string RequestIdField(absl::string_view request_id);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_REQUEST_POOL_H_
