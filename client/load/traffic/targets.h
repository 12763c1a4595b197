// The servers of a load test, and the credentials for them.
#ifndef CLIENT_LOAD_TRAFFIC_TARGETS_H_
#define CLIENT_LOAD_TRAFFIC_TARGETS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/credentials.h"

namespace canopy::client {

struct Target {
  std::string address;  // a gRPC target
  double share = 1;     // the weight among all targets; above 0
};

// Parses `ADDRESS[=SHARE],...`, such as 10.0.0.1:50051=3,10.0.0.2:50051. Returns INVALID_ARGUMENT
// with the wrong part.
absl::StatusOr<std::vector<Target>> ParseTargets(absl::string_view text);

// The names of PEM files. Empty = the system's authorities, and no client certificate.
struct TlsFiles {
  std::string ca;
  std::string certificate;
  std::string key;
};

// Returns TLS credentials. Returns INVALID_ARGUMENT for a file that cannot be read, and for a
// certificate without a key or a key without a certificate.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(const TlsFiles& files);

// Returns the first line of a file, for `authorization: Bearer`, or INVALID_ARGUMENT if there is
// none.
absl::StatusOr<std::string> ReadToken(const std::string& path);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TARGETS_H_
