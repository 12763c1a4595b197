// The options of calls and of the connections that they come on.
#ifndef SERVER_RPC_CALL_OPTIONS_H_
#define SERVER_RPC_CALL_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "base/shared_defaults.h"
#include "server/telemetry/request_log.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

struct CallOptions {
  RequestLimits request;
  int32_t max_stream_in_flight = 64;  // unanswered requests of one stream; >= 1
  int32_t encode_threads = 0;         // threads that encode answers; 0 = one a core, but 2 to 4
  // Answers of more estimated bytes are encoded one at a time, on a thread of their own; >= 0.
  // While its lists are encoded, an answer takes three times the memory that it reserved. No flag.
  int64_t large_answer_bytes = int64_t{64} << 20;
  LogRequests log_requests = LogRequests::kErrors;
  // Estimated host memory of all requests that are not answered yet; >= 1.
  int64_t max_request_memory_bytes = int64_t{8} << 30;
  // Bytes that the process may have resident; 0 = the limit of its control group, if it has one.
  int64_t memory_limit_bytes = 0;
  // After this, the call of a client that does not read is cut; zero = never.
  absl::Duration write_timeout = absl::Minutes(1);
};

// Limits on what one connection may send.
struct ConnectionLimits {
  // Bytes of one message, below 2^31; calls with larger ones end with gRPC's RESOURCE_EXHAUSTED.
  int64_t max_request_bytes = kDefaultMaxRequestBytes;
  int32_t max_concurrent_streams = 1'024;  // calls in flight
};

}  // namespace canopy::server

#endif  // SERVER_RPC_CALL_OPTIONS_H_
