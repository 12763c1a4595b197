#include "server/listener.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpc/impl/codegen/grpc_types.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/address.h"
#include "server/health.h"
#include "server/reflection_guard.h"

namespace canopy::server {
namespace {

// Ours need a few hundred bytes; a proxy's trace and credential headers some thousand.
constexpr int kMaxMetadataBytes = 16 << 10;

// A half-open connection is found within half a minute.
constexpr int kKeepaliveMs = 15'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Clients that ping more often are closed by gRPC.
constexpr int kMinPingIntervalMs = 5'000;

void SetArguments(const ListenerOptions& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(options.max_request_bytes);
  builder->SetMaxSendMessageSize(-1);
  // A few compressed bytes may stand for gigabytes, and gRPC limits a message only once it is open.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // Otherwise a second server could bind the same port and get half of the connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kMinPingIntervalMs);
}

}  // namespace

absl::StatusOr<Listener> StartListener(const ListenerOptions& options, grpc::Service* service) {
  Health::Enable();
  grpc::ServerBuilder builder;
  SetArguments(options, &builder);
  if (!options.reflection) {
    builder.SetOption(WithoutReflection());
  }
  Listener listener;
  if (service != nullptr) {
    builder.RegisterService(service);
  } else {
    listener.no_service = std::make_unique<grpc::CallbackGenericService>();
    builder.RegisterCallbackGenericService(listener.no_service.get());
  }
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.address));
  }
  listener.address = WithPort(options.address, port);
  return listener;
}

}  // namespace canopy::server
