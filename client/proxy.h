// Which HTTP proxy a channel goes through. gRPC would send every call through the proxy of the
// environment, calls to this machine too, and would know neither NO_PROXY nor address ranges.
//
// The proxy is the first that is set of grpc_proxy, https_proxy and http_proxy, as for any gRPC
// client: `http://[USER:PASSWORD@]HOST[:PORT]`, or without the scheme. These go direct:
//   - loopback and unspecified addresses, localhost and names below it, and unix sockets
//   - what no_grpc_proxy, no_proxy or NO_PROXY lists, by the rules of curl and Go: entries are
//     separated by commas or spaces and compared without regard to case; `*` is everything;
//     `example.com`, `.example.com` and `*.example.com` are that name and all names below it; an
//     address is that address, and 10.0.0.0/8 or fd00::/8 all addresses of a range; an entry with a
//     port, as `example.com:50051`, holds for that port only. Names are not looked up, so ranges
//     match only targets that are addresses.
//   - a target that lists several addresses, since one tunnel leads to one of them, and targets of
//     other resolvers, as xds:///name
#ifndef CLIENT_PROXY_H_
#define CLIENT_PROXY_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace canopy::client {

// A proxy, and the name by which it knows the server.
struct ProxyRoute {
  std::string proxy;        // HOST:PORT
  std::string server;       // HOST:PORT, for CONNECT
  std::string credentials;  // USER:PASSWORD, decoded; empty = none
  std::string source;       // who named the proxy: `https_proxy`, or `ClientOptions::proxy`
};

// Returns an environment variable's value, or null.
using EnvironmentReader = absl::FunctionRef<const char*(const char* name)>;

// Returns the proxy for a gRPC target; absent = the channel goes direct. `chosen` is
// ClientOptions::proxy: absent = as the environment says, empty = none, else a proxy to be used
// whatever the environment says. Returns INVALID_ARGUMENT if gRPC cannot speak to the proxy, and if
// `chosen` names a proxy for a target that is neither one HOST:PORT nor a unix socket.
absl::StatusOr<absl::optional<ProxyRoute>> FindProxy(absl::string_view target,
                                                     const absl::optional<std::string>& chosen,
                                                     EnvironmentReader environment);

// As above, with the environment of this process.
absl::StatusOr<absl::optional<ProxyRoute>> FindProxy(absl::string_view target,
                                                     const absl::optional<std::string>& chosen);

// For errors, without credentials: `through the proxy proxy:3128 (from https_proxy)`.
std::string ToString(const ProxyRoute& route);

// Returns `status` with the proxy's name in its text where a proxy may be the reason for it:
// UNAVAILABLE and DEADLINE_EXCEEDED.
absl::Status NameProxy(const absl::Status& status, const absl::optional<ProxyRoute>& route);

}  // namespace canopy::client

#endif  // CLIENT_PROXY_H_
