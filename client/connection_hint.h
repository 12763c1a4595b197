// What a call that reached no Canopy server most likely met, and what to do about it.
#ifndef CLIENT_CONNECTION_HINT_H_
#define CLIENT_CONNECTION_HINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy::client {

// Returns one sentence without a full stop for an error of a call to `target`, as gRPC words it: a
// port that speaks HTTP/1, TLS on one side only, a server without the service that was called. ''
// when nothing better is known than that the server may not run.
std::string ConnectionHint(const absl::Status& status, absl::string_view target);

}  // namespace canopy::client

#endif  // CLIENT_CONNECTION_HINT_H_
