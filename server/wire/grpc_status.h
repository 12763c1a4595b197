// The only conversion from absl::Status to the status that a client receives: code, text,
// google.rpc details and trailers.
//
// A code that only a bug can cause becomes INTERNAL with an id that is also in the log. No text of
// such an error leaves the process.
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

// The longest text that a client receives, so that errors fit the trailers of any client.
inline constexpr size_t kMaxStatusMessageBytes = 1024;

// The domain of google.rpc.ErrorInfo.
inline constexpr char kErrorDomain[] = "canopy.v1";

// Returns `status` with a google.rpc detail message, which ToWireError passes on.
absl::Status WithDetail(absl::Status status, const google::protobuf::MessageLite& detail);

// Returns `status` with the path of the wrong field and the reason, for its log line. Neither is
// sent to the client. `reason` must not contain contents of a request: no tokens, prompts or ids of
// candidates.
absl::Status WithLogDetail(absl::Status status, absl::string_view field, absl::string_view reason);

// Returns NOT_FOUND with google.rpc.ResourceInfo for a model that is not among the `loaded` ones.
absl::Status UnknownModelError(absl::string_view name, absl::Span<const std::string> loaded);

// Returns text from a client in a form that is safe in an error or a log line: printable, and at
// most 128 bytes.
std::string QuotedForError(absl::string_view text);

// Returns sixteen hex digits that are unique in this process and most likely elsewhere.
std::string NewId();

struct WireError {
  grpc::Status status;
  std::string reason;       // the name of the error's reason; '' = none
  std::string internal_id;  // the id in the log line of an INTERNAL error; '' for other errors
  std::string log_field;    // from WithLogDetail; '' = none
  std::string log_reason;
  // The value of the trailer grpc-retry-pushback-ms: a delay, or "-1" = a retry is useless.
  std::optional<std::string> retry_pushback_ms;
};

// Converts a status; OK stays OK.
WireError ToWireError(const absl::Status& status);

}  // namespace canopy::server

#endif  // SERVER_WIRE_GRPC_STATUS_H_
