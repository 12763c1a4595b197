#include "client/channel.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/proxy.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace canopy::client {
namespace {

// gRPC also counts the call's metadata against the retry buffer.
constexpr int kRetryBufferHeadroomBytes = 64 << 10;
// A refusal lists up to 16 violations in its trailers, which exceeds gRPC's 8 KiB if ids are long.
constexpr int kMaxMetadataBytes = 64 << 10;
// A dead peer is noticed within keepalive time + timeout while a call waits. gRPC sends at most two
// pings without data, so that servers with default ping limits do not close the connection.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// The time for connecting, including the first answer of a busy server.
constexpr int kConnectTimeoutMs = 10'000;
// By default gRPC reconnects after 1 s, which is longer than the first retries take together.
constexpr int kReconnectBackoffMs = 100;
constexpr int kMaxReconnectBackoffMs = 5'000;

// gRPC counts backoffs in whole milliseconds, and opens no channel with a backoff of 0 or of
// centuries.
constexpr absl::Duration kShortestBackoff = absl::Milliseconds(1);
constexpr absl::Duration kLongestBackoff = absl::Hours(24);

double BackoffSeconds(absl::Duration backoff) {
  return absl::ToDoubleSeconds(std::clamp(backoff, kShortestBackoff, kLongestBackoff));
}

std::string RetryPolicy(const ClientOptions& options) {
  return absl::StrFormat(R"("retryPolicy": {
      "maxAttempts": %d, "initialBackoff": "%.9fs", "maxBackoff": "%.9fs",
      "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]})",
                         options.max_attempts, BackoffSeconds(options.initial_backoff),
                         BackoffSeconds(options.max_backoff));
}

// The throttle stops retries while more than half of the recent calls failed, so that retries do
// not overload a server that is down.
std::string ServiceConfigJson(const ClientOptions& options) {
  const std::string retry_policy = options.max_attempts == 1 ? "" : ", " + RetryPolicy(options);
  return absl::StrFormat(R"({
    "loadBalancingConfig": [{"round_robin": {}}],
    "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
    "methodConfig": [{"name": [{}]%s}]})",
                         retry_policy);
}

// Makes the channel connect to the proxy of `route` and request a tunnel to the server. gRPC's own
// proxy support is disabled, because it would read the environment again, by different rules.
std::string ConnectThrough(const ProxyRoute& route, grpc::ChannelArguments* arguments) {
  // Names of gRPC arguments that are missing from its headers.
  arguments->SetString("grpc.http_connect_server", route.server);
  if (!route.credentials.empty()) {
    arguments->SetString(
        "grpc.http_connect_headers",
        absl::StrCat("Proxy-Authorization:Basic ", absl::Base64Escape(route.credentials)));
  }
  arguments->SetString(GRPC_ARG_DEFAULT_AUTHORITY, route.server);
  return absl::StrCat("dns:", route.proxy);
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options) {
  const auto max_request_bytes = static_cast<int>(options.max_request_bytes);
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(ServiceConfigJson(options));
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, options.max_attempts == 1 ? 0 : 1);
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE,
                   max_request_bytes + kRetryBufferHeadroomBytes);
  arguments.SetMaxSendMessageSize(max_request_bytes);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Despite its name, this argument bounds the time of an attempt, not the pause before it.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, options.own_connections ? 1 : 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const absl::StatusOr<absl::optional<ProxyRoute>> route = FindProxy(options.target, options.proxy);
  const std::string target =
      route.ok() && route->has_value() ? ConnectThrough(**route, &arguments) : options.target;
  return grpc::CreateCustomChannel(
      target,
      options.credentials == nullptr ? grpc::InsecureChannelCredentials() : options.credentials,
      arguments);
}

}  // namespace canopy::client
