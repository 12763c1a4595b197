// Canopy's C++ client: blocking calls with a deadline and retries, whose answers are checked
// against the request.
//
// gRPC retries a call on UNAVAILABLE and RESOURCE_EXHAUSTED with exponential backoff, within its
// deadline. A server that sends grpc-retry-pushback-ms sets the delay itself or, with -1, ends the
// retries. Calls have no side effects, so repeating them is safe.
//
// Tokens in TokenIds.raw64 are sent as raw (client/token_forms.h), which every server reads.
//
// Errors
//   RESOURCE_EXHAUSTED  the request exceeds max_request_bytes; nothing is sent
//   INVALID_ARGUMENT    traceparent is malformed, or raw64 cannot be narrowed; nothing is sent
//   DATA_LOSS           the answer does not fit the request
//   UNAVAILABLE         the server cannot be reached
//   DEADLINE_EXCEEDED   there was no answer in time
//
// Other errors are those of the server, with their details (client/error_details.h). If the call
// went through a proxy (client/proxy.h), the texts of UNAVAILABLE and DEADLINE_EXCEEDED name it.
#ifndef CLIENT_CLIENT_H_
#define CLIENT_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "canopy/v1/admin.grpc.pb.h"
#include "canopy/v1/admin.pb.h"
#include "canopy/v1/scorer.grpc.pb.h"
#include "canopy/v1/scorer.pb.h"
#include "client/client_options.h"
#include "client/proxy.h"
#include "client/score_stream.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace canopy::client {

// The values are those of grpc.health.v1.HealthCheckResponse.ServingStatus.
enum class Health { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// Additional data that one call sends with its request.
struct CallOptions {
  // The W3C Trace Context header of the caller's span, as "00-TRACE-PARENT-FLAGS" in lower-case
  // hex; '' = none. The server writes it to its log.
  std::string traceparent;
};

// Thread-safe. All threads can share one client, and so one connection to each server.
class Client {
 public:
  using Options = ClientOptions;

  // Creates a client. Returns INVALID_ARGUMENT for wrong options. The first call connects.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const Options& options);

  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request,
                                          const CallOptions& options = {});

  // Opens a call with many requests in flight (client/score_stream.h). The stream may outlive the
  // client. Returns INVALID_ARGUMENT for wrong options, and the errors of GetModel if it has to be
  // called.
  absl::StatusOr<std::unique_ptr<ScoreStream>> OpenStream(const ScoreStreamOptions& options = {},
                                                          const CallOptions& call = {});

  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request,
                                              const CallOptions& options = {});
  absl::StatusOr<v1::Model> GetModel(const v1::GetModelRequest& request);
  absl::StatusOr<v1::ListModelsResponse> ListModels();

  // Makes the server load weights and serve them. The target of the client must be the server's
  // --admin_listen, and its deadline must be as long as loading takes. Returns the model as it
  // serves from now on. After an error other than UNAVAILABLE and DEADLINE_EXCEEDED, the old
  // weights keep serving.
  absl::StatusOr<v1::Model> LoadWeights(const v1::LoadWeightsRequest& request);

  // Returns the health of `service`: '' = the server is alive, 'canopy.v1.Scorer' = it is ready to
  // score.
  absl::StatusOr<Health> Check(const std::string& service);

  // Returns the proxy that calls go through; absent = none.
  const absl::optional<ProxyRoute>& proxy() const { return proxy_; }

  // Returns whether there is a connection now, which distinguishes a slow server from one that was
  // never reached.
  bool Connected();

 private:
  template <typename Stub, typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  Client(const Options& options, std::shared_ptr<grpc::Channel> channel);

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub, Method<Stub, Request, Response> method,
                                const Request& request, const CallOptions& options = {});

  const Options options_;
  const absl::optional<ProxyRoute> proxy_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Scorer::Stub> stub_;
  const std::unique_ptr<v1::Admin::Stub> admin_stub_;
};

}  // namespace canopy::client

#endif  // CLIENT_CLIENT_H_
