// Makes client options and requests out of the flags.
#ifndef CLIENT_CLI_REQUEST_FLAGS_H_
#define CLIENT_CLI_REQUEST_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "canopy/v1/scorer.pb.h"
#include "client/client_options.h"

namespace canopy::client {

// Where calls of `command` go: to --admin for load_weights, else to --server.
std::string TargetFromFlags(absl::string_view command);

ClientOptions OptionsFromFlags(absl::string_view command = "");

// Everything but the questions. INVALID_ARGUMENT naming the flag for an unknown name.
absl::Status FillFromFlags(v1::ScoreRequest* request);

}  // namespace canopy::client

#endif  // CLIENT_CLI_REQUEST_FLAGS_H_
