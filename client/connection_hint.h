// Explains the most likely reason why a call did not reach a Canopy server, and what to do about
// it.
#ifndef CLIENT_CONNECTION_HINT_H_
#define CLIENT_CONNECTION_HINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

// Returns one sentence without a full stop for an error of a call to `target`, recognised by gRPC's
// text: a port that speaks HTTP/1, TLS on one side only, or a server without the called service.
// Returns '' if the server may simply not be running.
std::string ConnectionHint(const absl::Status& status, absl::string_view target);

}  // namespace canopy::client

#endif  // CLIENT_CONNECTION_HINT_H_
