// Turns the status of a gRPC call into an absl::Status without losing its google.rpc details.
// Called by the client after every call; callers read the structured form with GetErrorDetails.
// Text in here comes from the server: escape it before it goes to a terminal or a log.
#ifndef CLIENT_ERROR_DETAILS_H_
#define CLIENT_ERROR_DETAILS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace canopy::client {

// One thing that is wrong with a request.
struct FieldViolation {
  std::string field;        // As `questions[3].candidates[7].tokens`.
  std::string description;  // As `2100 tokens exceed max_path_tokens 2048`.
};

// What a refusal carries beside its code. Absent details leave their members empty.
struct ErrorDetails {
  std::string server_message;                  // The server's own text, without the violations.
  std::vector<FieldViolation> violations;      // google.rpc.BadRequest, in request order.
  absl::optional<absl::Duration> retry_after;  // google.rpc.RetryInfo; absent = do not retry.
  std::string reason;                          // google.rpc.ErrorInfo.
  std::string domain;                          // google.rpc.ErrorInfo.
  std::string resource_type;                   // google.rpc.ResourceInfo, as `model`.
  std::string resource_name;                   // google.rpc.ResourceInfo.
};

// The status with the same code (UNKNOWN for a code that gRPC does not define), a one-line message
// that names every field violation, and the details attached. OK gives OK.
absl::Status ToAbslStatus(const grpc::Status& status);

// Likewise for the error of one request of a stream. UNKNOWN for code 0: an error is never OK.
absl::Status ToAbslStatus(const google::rpc::Status& error);

// The details that ToAbslStatus attached; empty when there were none or they did not parse.
ErrorDetails GetErrorDetails(const absl::Status& status);

// True when `message` already says what `violation` says.
bool Mentions(const std::string& message, const FieldViolation& violation);

}  // namespace canopy::client

#endif  // CLIENT_ERROR_DETAILS_H_
