// Writes one log line per answered request if the operator enabled it: the sender, the outcome, the
// time of each stage and the counts. Never writes tokens, prompts or ids of candidates.
#ifndef SERVER_TELEMETRY_REQUEST_LOG_H_
#define SERVER_TELEMETRY_REQUEST_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/logging.h"
#include "server/telemetry/metrics.h"
#include "server/wire/grpc_status.h"

namespace canopy::server {

// The answers that get a line.
enum class LogRequests { kNone, kErrors, kAll };

// The trailer with the id that the server made for a logged request without an id.
inline constexpr char kRequestIdTrailer[] = "canopy-request-id";

// One answered request. The views must live as long as the record.
struct RequestRecord {
  Method method = Method::kScore;
  absl::string_view request_id;   // as the client sent it
  absl::string_view traceparent;  // as the client sent it
  absl::string_view peer;         // the address of the client
  double total_ms = 0;
  const ScoreObservation* scored = nullptr;  // null = the request was not scored
};

// One stream that has ended.
struct StreamRecord {
  absl::string_view traceparent;  // as the client sent it
  absl::string_view peer;
  int64_t requests = 0;  // the number of requests that were read
  double total_ms = 0;
};

// Returns the fields of the line, in order; `id` identifies the request.
std::vector<LogField> RequestFields(const RequestRecord& record, const WireError& error,
                                    absl::string_view id);

// Returns `request_id` from the bytes of a ScoreRequest if it is among the first fields, where
// protobuf writes it; '' otherwise. Reads only a few fields, because the bytes may be hostile.
absl::string_view FindRequestId(absl::string_view message);

// Thread-safe.
class RequestLog {
 public:
  explicit RequestLog(LogRequests which) : which_(which) {}

  bool on() const { return which_ != LogRequests::kNone; }
  bool Wants(const WireError& error) const {
    return which_ == LogRequests::kAll || (on() && !error.status.ok());
  }

  // Returns the id in the line if the client gave none and the line was written; '' otherwise.
  std::string Write(const RequestRecord& record, const WireError& error) const;
  // Writes how a stream ended, if Wants returns true for it. Its requests have lines of their own.
  void WriteStreamEnd(const StreamRecord& record, const WireError& error) const;

 private:
  const LogRequests which_;
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_REQUEST_LOG_H_
