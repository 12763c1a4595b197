// Options of calls and of their connections.
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
  int32_t max_stream_in_flight = 64;  // the most unanswered requests of one stream; >= 1
  int32_t encode_threads = 0;         // threads that encode answers; 0 = one per core, but 2 to 4
  // Answers with more estimated bytes are encoded one at a time on a thread of their own, because
  // an answer takes three times its reserved memory while its lists are encoded; >= 0. There is no
  // flag.
  int64_t large_answer_bytes = int64_t{64} << 20;
  LogRequests log_requests = LogRequests::kErrors;
  // The most host memory that all unanswered requests may take, as estimated; >= 1.
  int64_t max_request_memory_bytes = int64_t{8} << 30;
  // The most resident memory of the process; 0 = the limit of its control group, if it has one.
  int64_t memory_limit_bytes = 0;
  // A call is cut if its client reads nothing for this long; zero = never.
  absl::Duration write_timeout = absl::Minutes(1);
};

// Limits on the data that one connection may send.
struct ConnectionLimits {
  // The most bytes of one message, below 2^31. gRPC ends calls with larger messages with
  // RESOURCE_EXHAUSTED.
  int64_t max_request_bytes = kDefaultMaxRequestBytes;
  int32_t max_concurrent_streams = 1'024;  // calls in progress
};

}  // namespace canopy::server

#endif  // SERVER_RPC_CALL_OPTIONS_H_
