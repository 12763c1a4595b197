// One line of the log for an answered request, when the operator asked for it: who asked, what
// became of it, how long each stage took, how much was counted. Never tokens, prompts or ids of
// candidates.
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

// Which answers get a line.
enum class LogRequests { kNone, kErrors, kAll };

// Trailer with the id that the server made for a request that came without one and was logged.
inline constexpr char kRequestIdTrailer[] = "canopy-request-id";

// One answered request. Views must live as long as it does.
struct RequestRecord {
  Method method = Method::kScore;
  absl::string_view request_id;   // as the client sent it
  absl::string_view traceparent;  // likewise
  absl::string_view peer;         // the connection's other end
  double total_ms = 0;
  const ScoreObservation* scored = nullptr;  // null = it was not
};

// One stream that has ended.
struct StreamRecord {
  absl::string_view traceparent;  // as the client sent it
  absl::string_view peer;
  int64_t requests = 0;  // that were read
  double total_ms = 0;
};

// What the line says, in order; `id` names the request.
std::vector<LogField> RequestFields(const RequestRecord& record, const WireError& error,
                                    absl::string_view id);

// `request_id` of the bytes of a ScoreRequest, where its writer put it first, as protobuf does; ''
// when it is not there. Looks at a few fields only, since the bytes may be hostile.
absl::string_view FindRequestId(absl::string_view message);

// Thread-safe.
class RequestLog {
 public:
  explicit RequestLog(LogRequests which) : which_(which) {}

  bool on() const { return which_ != LogRequests::kNone; }
  bool Wants(const WireError& error) const {
    return which_ == LogRequests::kAll || (on() && !error.status.ok());
  }

  // Returns the id that the line names the request by when the client gave none and the line was
  // written, else ''.
  std::string Write(const RequestRecord& record, const WireError& error) const;
  // Where Wants says so: how a stream ended, whose requests have lines of their own.
  void WriteStreamEnd(const StreamRecord& record, const WireError& error) const;

 private:
  const LogRequests which_;
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_REQUEST_LOG_H_
