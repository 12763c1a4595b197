// From a result of the engine to the bytes of a ScoreResponse.
#ifndef SERVER_WIRE_RESPONSE_ENCODER_H_
#define SERVER_WIRE_RESPONSE_ENCODER_H_

#include "absl/strings/string_view.h"
#include "base/stopwatch.h"
#include "canopy/v1/types.pb.h"
#include "core/engine/types.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

// Stage times that the engine does not know.
struct RequestTimes {
  double decode_ms = 0;
  double encode_queue_ms = 0;
  Stopwatch total;  // since the first byte was decoded
};

// What the client sent, for echoing ids and lengths. Views only.
struct EncodeInput {
  absl::string_view message;  // the request's bytes
  const PreparedRequest& request;
  const RequestTimes& times;
};

struct EncodedResponse {
  grpc::ByteBuffer bytes;
  double encode_ms = 0;
  double total_ms = 0;
  int64_t unscored_paths = 0;  // that lack an output
};

// Takes the vectors out of `result` and hands them to gRPC without copying. An output that a path
// lacks is left out, and named in unscored_outputs with unscored_reason "non_finite"; its vector
// row stays NaN.
EncodedResponse EncodeScoreResponse(const EncodeInput& input, ScoreResult result);

v1::Backend ToWire(Backend backend);
v1::Policy ToWire(Policy policy);

// Counts and route of a plan, as Stats has them. Fields of a run stay 0.
v1::Stats PlanStats(const PlanCounts& counts, const Route& route);

}  // namespace canopy::server

#endif  // SERVER_WIRE_RESPONSE_ENCODER_H_
