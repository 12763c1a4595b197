#include "server/rpc/listener.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/saturating_time.h"
#include "base/status_macros.h"
#include "grpc/impl/codegen/grpc_types.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/rpc/health.h"
#include "server/rpc/reflection_guard.h"

namespace canopy::server {
namespace {

// Canopy's clients need a few hundred bytes; the trace and credential headers of a proxy some
// thousand.
constexpr int kMaxMetadataBytes = 16 << 10;

// A half-open connection is found within half a minute.
constexpr int kKeepaliveMs = 15'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Clients that ping more often are closed by gRPC.
constexpr int kMinPingIntervalMs = 5'000;

void SetArguments(const ListenerOptions& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.limits.max_request_bytes));
  builder->SetMaxSendMessageSize(-1);
  // A few compressed bytes may stand for gigabytes, and gRPC checks the size of a message only
  // after decompression.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                              options.limits.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kMinPingIntervalMs);
}

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const std::string& text) {
    Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, text));
  }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* OtherServices::CreateReactor(
    grpc::GenericCallbackServerContext* /*context*/) {
  return new Refusal(text_);
}

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
  }
  if (!options.other_services.empty()) {
    listener.other_services = std::make_unique<OtherServices>(options.other_services);
    builder.RegisterCallbackGenericService(listener.other_services.get());
  }
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<ListenSocket> socket,
                          ListenSocket::Open(options.address));
  auto sink = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot start a gRPC server on ", options.address));
  }
  listener.acceptor = std::make_unique<ConnectionAcceptor>(std::move(socket), std::move(sink),
                                                           options.connection_refused);
  return listener;
}

// During its own shutdown, gRPC drops calls from clients that have not been told of it yet, and
// these calls end with CANCELLED. That shutdown therefore starts only after all connections are
// closed.
void Listener::Shutdown(std::chrono::steady_clock::time_point deadline) {
  if (acceptor != nullptr) {
    acceptor->Stop();
    acceptor->EndConnections(deadline);
    server->Shutdown(SaturatingAdd(std::chrono::system_clock::now(),
                                   TimeBetween(std::chrono::steady_clock::now(), deadline)));
  }
}

}  // namespace canopy::server
