// Canopy's C++ client: blocking calls with a deadline, retries, and answers that have been checked
// against the request.
//
// gRPC retries a call on UNAVAILABLE and RESOURCE_EXHAUSTED with exponential backoff, within its
// deadline; a server that sends grpc-retry-pushback-ms sets the delay itself or, with -1, ends the
// retries. Calls are pure, so repeating one is safe.
//
// Tokens in TokenIds.raw64 are sent as raw (client/token_forms.h), which every server reads.
//
// Errors: RESOURCE_EXHAUSTED for a request over max_request_bytes, INVALID_ARGUMENT for a
// traceparent that is none and for raw64 that cannot be narrowed (nothing is sent); DATA_LOSS for
// an answer that does not fit the request; otherwise the server's code with its details
// (client/error_details.h), UNAVAILABLE when there is no server, DEADLINE_EXCEEDED. Where the call
// went through a proxy (client/proxy.h), the texts of the last two name it.
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

// As grpc.health.v1.HealthCheckResponse.ServingStatus.
enum class Health { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

// What one call sends beside its request.
struct CallOptions {
  // W3C Trace Context's header of the caller's span, as "00-TRACE-PARENT-FLAGS" in lower-case hex;
  // '' = none. The server writes it to its log.
  std::string traceparent;
};

// Thread-safe: one client, and so one connection to each server, for all threads.
class Client {
 public:
  using Options = ClientOptions;

  // INVALID_ARGUMENT for wrong options. Does not connect: the first call does.
  static absl::StatusOr<std::unique_ptr<Client>> Create(const Options& options);

  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request,
                                          const CallOptions& options = {});

  // Many requests in flight on one call (client/score_stream.h). It may outlive the client.
  // INVALID_ARGUMENT for wrong options; what GetModel returns where it is asked.
  absl::StatusOr<std::unique_ptr<ScoreStream>> OpenStream(const ScoreStreamOptions& options = {},
                                                          const CallOptions& call = {});

  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request,
                                              const CallOptions& options = {});
  absl::StatusOr<v1::Model> GetModel(const v1::GetModelRequest& request);
  absl::StatusOr<v1::ListModelsResponse> ListModels();

  // Has the server load weights and serve them: of a client whose target is the server's
  // --admin_listen. Give it a deadline as long as loading takes. The answer describes the model as
  // it serves from now on; an error other than UNAVAILABLE and DEADLINE_EXCEEDED means that the old
  // weights go on.
  absl::StatusOr<v1::Model> LoadWeights(const v1::LoadWeightsRequest& request);

  // Health of `service`: '' = the server lives, 'canopy.v1.Scorer' = it is ready to score.
  absl::StatusOr<Health> Check(const std::string& service);

  // The proxy that calls go through; absent = none.
  const absl::optional<ProxyRoute>& proxy() const { return proxy_; }

  // Whether a connection stands now: tells a slow server from one that was never reached.
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
