// Encodes a result of the engine as the bytes of a ScoreResponse.
#ifndef SERVER_WIRE_RESPONSE_ENCODER_H_
#define SERVER_WIRE_RESPONSE_ENCODER_H_

#include "absl/strings/string_view.h"
#include "base/stopwatch.h"
#include "canopy/v1/types.pb.h"
#include "core/engine/types.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

// Times of stages outside the engine.
struct RequestTimes {
  double decode_ms = 0;
  double encode_queue_ms = 0;
  Stopwatch total;  // started when the first byte was decoded
};

// The request's ids and lengths, which the answer repeats. Views only.
struct EncodeInput {
  absl::string_view message;  // the request's bytes
  const PreparedRequest& request;
  const RequestTimes& times;
};

struct EncodedResponse {
  grpc::ByteBuffer bytes;
  double encode_ms = 0;
  double total_ms = 0;
  int64_t unscored_paths = 0;  // paths that lack an output
};

// Encodes an answer. Moves the vectors out of `result` to gRPC without a copy. An output that a
// path lacks is left out and named in unscored_outputs, with unscored_reason "non_finite"; the
// path's row of the vectors stays NaN.
EncodedResponse EncodeScoreResponse(const EncodeInput& input, ScoreResult result);

// Returns the counts and the route of a plan as Stats. The fields of a run stay 0.
v1::Stats PlanStats(const PlanCounts& counts, const Route& route);

}  // namespace canopy::server

#endif  // SERVER_WIRE_RESPONSE_ENCODER_H_
