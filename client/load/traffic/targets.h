// The servers of a load test, and what it takes to reach them.
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
  std::string address;  // A gRPC target.
  double share = 1;     // Weight among all targets; above 0.
};

// `ADDRESS[=SHARE],...`, as 10.0.0.1:50051=3,10.0.0.2:50051. INVALID_ARGUMENT naming the part.
absl::StatusOr<std::vector<Target>> ParseTargets(absl::string_view text);

// PEM files; empty = none: the system's authorities, and no certificate of the client's own.
struct TlsFiles {
  std::string ca;
  std::string certificate;
  std::string key;
};

// TLS credentials. INVALID_ARGUMENT naming a file that cannot be read, and for a certificate
// without its key or a key without its certificate.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(const TlsFiles& files);

// The first line of a file, for `authorization: Bearer`; INVALID_ARGUMENT when there is none.
absl::StatusOr<std::string> ReadToken(const std::string& path);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TARGETS_H_
