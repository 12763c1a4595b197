// The one conversion from absl::Status to what a client sees: code, text, google.rpc details and
// trailers.
//
// Codes that only a bug of ours can cause become INTERNAL with an id that stands in the log, and
// nothing else: no text of the error leaves the process.
#ifndef SERVER_WIRE_GRPC_STATUS_H_
#define SERVER_WIRE_GRPC_STATUS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/status.h"

namespace canopy::server {

// Longest text that a client gets, so that errors fit into the trailers of any client.
inline constexpr size_t kMaxStatusMessageBytes = 1024;

// Domain of google.rpc.ErrorInfo.
inline constexpr char kErrorDomain[] = "canopy.v1";

// `status` with a google.rpc detail message that ToWireError passes on.
absl::Status WithDetail(absl::Status status, const google::protobuf::MessageLite& detail);

// `status` with what its log line says of the part of the request that is wrong: the field's path,
// and the reason in words. Neither is sent to the client, and `reason` must hold no contents of a
// request: no tokens, prompts or ids of candidates.
absl::Status WithLogDetail(absl::Status status, absl::string_view field, absl::string_view reason);

// NOT_FOUND with google.rpc.ResourceInfo for a model that is not among the `loaded` ones.
absl::Status UnknownModelError(absl::string_view name, absl::Span<const std::string> loaded);

// Text from a client, fit for an error or a log line: printable, at most 128 bytes of it.
std::string QuotedForError(absl::string_view text);

// Sixteen hex digits, different for each of a process and unlikely to meet another's.
std::string NewId();

struct WireError {
  grpc::Status status;
  std::string reason;       // as ErrorReason gives it; '' = none
  std::string internal_id;  // in the log line of an INTERNAL error; '' for others
  std::string log_field;    // as WithLogDetail had them; '' = none
  std::string log_reason;
  // Value of the trailer grpc-retry-pushback-ms: a delay, or "-1" = a retry is of no use.
  std::optional<std::string> retry_pushback_ms;
};

// OK stays OK.
WireError ToWireError(const absl::Status& status);

}  // namespace canopy::server

#endif  // SERVER_WIRE_GRPC_STATUS_H_
