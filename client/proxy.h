// Chooses the HTTP proxy of a channel. gRPC would send every call through the proxy of the
// environment, including calls to this machine, and ignores NO_PROXY and address ranges.
//
// As for any gRPC client, the proxy is the first of grpc_proxy, https_proxy and http_proxy that is
// set: `http://[USER:PASSWORD@]HOST[:PORT]`, or the same without the scheme. These targets are
// reached directly:
//   - loopback and unspecified addresses, localhost and names below it, and unix sockets
//   - the entries of no_grpc_proxy, no_proxy or NO_PROXY, by the rules of curl and Go: entries are
//     separated by commas or spaces and ignore case; `*` is everything; `example.com`,
//     `.example.com` and `*.example.com` are that name and all names below it; an address is that
//     address, and 10.0.0.0/8 or fd00::/8 all addresses of a range; an entry with a port, such as
//     `example.com:50051`, applies to that port only. Names are not looked up, so ranges match only
//     targets that are addresses.
//   - a target with several addresses, because a tunnel leads to one of them, and targets of other
//     resolvers, such as xds:///name
#ifndef CLIENT_PROXY_H_
#define CLIENT_PROXY_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace canopy::client {

// A proxy, and the server to which it opens a tunnel.
struct ProxyRoute {
  std::string proxy;        // HOST:PORT
  std::string server;       // HOST:PORT, for CONNECT
  std::string credentials;  // USER:PASSWORD, decoded; empty = none
  std::string source;       // the origin of the proxy: `https_proxy`, or `ClientOptions::proxy`
};

// Returns an environment variable's value, or null.
using EnvironmentReader = absl::FunctionRef<const char*(const char* name)>;

// Returns the proxy for a gRPC target; absent = the channel connects directly. `chosen` is
// ClientOptions::proxy: absent = as in the environment, empty = none, else a proxy that overrides
// the environment. Returns INVALID_ARGUMENT if gRPC does not support the proxy, and if `chosen`
// names a proxy for a target that is neither one HOST:PORT nor a unix socket.
absl::StatusOr<absl::optional<ProxyRoute>> FindProxy(absl::string_view target,
                                                     const absl::optional<std::string>& chosen,
                                                     EnvironmentReader environment);

// The same, with the environment of this process.
absl::StatusOr<absl::optional<ProxyRoute>> FindProxy(absl::string_view target,
                                                     const absl::optional<std::string>& chosen);

// Returns a text for errors, without credentials: `through the proxy proxy:3128 (from
// https_proxy)`.
std::string ToString(const ProxyRoute& route);

// Returns `status` with the proxy's name in its text if the proxy may be the reason for it, which
// is so for UNAVAILABLE and DEADLINE_EXCEEDED.
absl::Status NameProxy(const absl::Status& status, const absl::optional<ProxyRoute>& route);

}  // namespace canopy::client

#endif  // CLIENT_PROXY_H_
