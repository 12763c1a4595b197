// Converts the status of a gRPC call to an absl::Status without losing its google.rpc details. The
// client does so after every call; callers read the details with GetErrorDetails. The texts come
// from the server: escape them before writing them to a terminal or a log.
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

// One field of a request that is wrong.
struct FieldViolation {
  std::string field;        // such as `questions[3].candidates[7].tokens`
  std::string description;  // such as `2100 tokens exceed max_path_tokens 2048`
};

// The details of a refusal. Members are empty if their detail is absent.
struct ErrorDetails {
  std::string server_message;                  // the text of the server, without the violations
  std::vector<FieldViolation> violations;      // google.rpc.BadRequest, in request order.
  absl::optional<absl::Duration> retry_after;  // google.rpc.RetryInfo; absent = do not retry
  std::string reason;                          // google.rpc.ErrorInfo.
  std::string domain;                          // google.rpc.ErrorInfo.
  std::string resource_type;                   // google.rpc.ResourceInfo, such as `model`
  std::string resource_name;                   // google.rpc.ResourceInfo.
};

// Returns a status with the same code (UNKNOWN for a code that gRPC does not define), a one-line
// message that names every field violation, and the details. OK stays OK.
absl::Status ToAbslStatus(const grpc::Status& status);

// The same for the error of one request of a stream. Code 0 becomes UNKNOWN, because an error is
// never OK.
absl::Status ToAbslStatus(const google::rpc::Status& error);

// Returns the details that ToAbslStatus attached; empty if there were none or they did not parse.
ErrorDetails GetErrorDetails(const absl::Status& status);

// Returns whether `message` already contains the text of `violation`.
bool Mentions(const std::string& message, const FieldViolation& violation);

}  // namespace canopy::client

#endif  // CLIENT_ERROR_DETAILS_H_
