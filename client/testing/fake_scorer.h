// An in-process Scorer for client tests. Answers with functions that a test sets, on a free
// loopback port, with gRPC's own health service.
#ifndef CLIENT_TESTING_FAKE_SCORER_H_
#define CLIENT_TESTING_FAKE_SCORER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "canopy/v1/admin.grpc.pb.h"
#include "canopy/v1/scorer.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_context.h"

namespace canopy::client {

class FakeScorer final : public v1::Scorer::Service {
 public:
  template <typename Request, typename Response>
  using Handler = std::function<grpc::Status(grpc::ServerContext*, const Request&, Response*)>;
  using Stream = grpc::ServerReaderWriter<v1::ScoreResponse, v1::ScoreRequest>;

  // Starts to listen. Calls are answered by the handlers below, or with UNIMPLEMENTED without one.
  // Set the handlers before the first call. ThreadSanitizer does not see the order that requests
  // and answers establish: a test calls HandOver on the scorer before requests whose handlers use
  // the test's variables, and TakeOver before it reads what handlers wrote.
  FakeScorer();
  ~FakeScorer() override;

  std::string target() const;
  // Each request of a stream counts.
  int num_calls() const { return num_calls_.load(); }
  int num_streams() const { return num_streams_.load(); }
  void SetServing(const std::string& service, bool serving);

  Handler<v1::ScoreRequest, v1::ScoreResponse> score;
  // Without a handler, `score` answers the requests one after the other; refusals go into `error`.
  std::function<grpc::Status(grpc::ServerContext*, Stream*)> score_stream;
  Handler<v1::ExplainRequest, v1::ExplainResponse> explain;
  Handler<v1::GetModelRequest, v1::Model> get_model;
  Handler<v1::ListModelsRequest, v1::ListModelsResponse> list_models;
  Handler<v1::LoadWeightsRequest, v1::Model> load_weights;

 private:
  // Listens on the same port.
  class Admin final : public v1::Admin::Service {
   public:
    explicit Admin(FakeScorer* scorer) : scorer_(*scorer) {}
    grpc::Status LoadWeights(grpc::ServerContext* context, const v1::LoadWeightsRequest* request,
                             v1::Model* response) override;

   private:
    FakeScorer& scorer_;
  };

  grpc::Status Score(grpc::ServerContext* context, const v1::ScoreRequest* request,
                     v1::ScoreResponse* response) override;
  grpc::Status ScoreStream(grpc::ServerContext* context, Stream* stream) override;
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override;
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::Model* response) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;

  template <typename Request, typename Response>
  grpc::Status Answer(const Handler<Request, Response>& handler, grpc::ServerContext* context,
                      const Request* request, Response* response);

  Admin admin_{this};
  std::atomic<int> num_calls_{0};
  std::atomic<int> num_streams_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace canopy::client

#endif  // CLIENT_TESTING_FAKE_SCORER_H_
