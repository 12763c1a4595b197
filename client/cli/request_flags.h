// Builds client options and requests from command-line flags.
#ifndef CLIENT_CLI_REQUEST_FLAGS_H_
#define CLIENT_CLI_REQUEST_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "canopy/v1/scorer.pb.h"
#include "client/client_options.h"

namespace canopy::client {

// Returns the target of `command`: --admin for load_weights, else --server.
std::string TargetFromFlags(absl::string_view command);

ClientOptions OptionsFromFlags(absl::string_view command = "");

// Fills in everything except the questions. Returns INVALID_ARGUMENT with the flag for an unknown
// name.
absl::Status FillFromFlags(v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_CLI_REQUEST_FLAGS_H_
