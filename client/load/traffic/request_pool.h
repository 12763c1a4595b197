// The distinct requests that a load test sends repeatedly. They are made once, from a seed or a
// trace, and stored as bytes, so that sending costs no more than copying them.
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
  std::string shape;         // the name of the shape; `trace` for questions that a trace contains
  v1::ScoreRequest request;  // without request_id
  std::string bytes;         // the serialised request; an id can be appended as an additional field
  uint64_t questions = 0;
  uint64_t candidates = 0;
  uint64_t input_tokens = 0;   // the sum of path lengths
  uint64_t unique_tokens = 0;  // the nodes of its tries
  v1::ScoreResponse expected;  // in verify mode only
};

// The properties that all requests share, and the ranges of random tokens.
struct PoolOptions {
  v1::ScoreRequest head;         // model, outputs, routing and priority
  int requests_per_shape = 64;   // distinct requests; at least 1
  uint64_t vocab_size = 0;       // of the model
  uint64_t max_path_tokens = 0;  // of the model
  uint64_t seed = 1;
};

// Thread-compatible. Reading is thread-safe after construction.
class RequestPool {
 public:
  // Returns INVALID_ARGUMENT if the paths of a shape are longer than the model allows.
  static absl::StatusOr<RequestPool> FromMix(const std::vector<WeightedShape>& mix,
                                             const PoolOptions& options);

  // Reads JSON lines, each with the time of sending and a shape, or questions as in codec.h:
  //
  //   {"at_ms": 12.5, "shape": "small"}
  //   {"at_ms": 13, "questions": [{"prefix": [5, 6], "candidates": [{"tokens": [7]}]}]}
  //
  // `instants` receives the times of all lines, in the order of the pool. Returns INVALID_ARGUMENT
  // with the line.
  static absl::StatusOr<RequestPool> FromTrace(std::istream& input, const PoolOptions& options,
                                               std::vector<absl::Duration>* instants);

  size_t size() const { return requests_.size(); }
  const PooledRequest& at(size_t index) const { return requests_[index]; }
  PooledRequest& at(size_t index) { return requests_[index]; }

  // Returns a random index by the shapes' weights. Requests of one shape are equally likely.
  size_t Draw(std::mt19937_64* random) const;

 private:
  RequestPool() = default;

  void Add(absl::string_view shape, v1::ScoreRequest request);

  std::vector<PooledRequest> requests_;
  std::vector<double> cumulative_weights_;  // [shapes] of a mix
  size_t requests_per_shape_ = 1;
};

// Returns the bytes of a ScoreRequest's field request_id, to be appended to a request.
std::string RequestIdField(absl::string_view request_id);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_REQUEST_POOL_H_
