#include "client/testing/fake_scorer.h"

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace canopy::client {
namespace {

// The longest sleep of a gRPC thread. By default a thread may sleep for 10 s through the end of the
// server, and sometimes does.
constexpr int kMaxSleepMs = 50;

}  // namespace

FakeScorer::FakeScorer() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, kMaxSleepMs);
  builder.RegisterService(this);
  builder.RegisterService(&admin_);
  server_ = builder.BuildAndStart();
}

FakeScorer::~FakeScorer() { server_->Shutdown(); }

std::string FakeScorer::target() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeScorer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

template <typename Request, typename Response>
grpc::Status FakeScorer::Answer(const Handler<Request, Response>& handler,
                                grpc::ServerContext* context, const Request* request,
                                Response* response) {
  const CallbackScope scope(this);
  ++num_calls_;
  return handler ? handler(context, *request, response)
                 : grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no handler");
}

grpc::Status FakeScorer::Admin::LoadWeights(grpc::ServerContext* context,
                                            const v1::LoadWeightsRequest* request,
                                            v1::Model* response) {
  return scorer_.Answer(scorer_.load_weights, context, request, response);
}

grpc::Status FakeScorer::Score(grpc::ServerContext* context, const v1::ScoreRequest* request,
                               v1::ScoreResponse* response) {
  return Answer(score, context, request, response);
}

grpc::Status FakeScorer::ScoreStream(grpc::ServerContext* context, Stream* stream) {
  ++num_streams_;
  if (score_stream) {
    const CallbackScope scope(this);
    return score_stream(context, stream);
  }
  v1::ScoreRequest request;
  while (stream->Read(&request)) {
    v1::ScoreResponse response;
    const grpc::Status status = Answer(score, context, &request, &response);
    if (!status.ok()) {
      response.Clear();
      response.set_request_id(request.request_id());
      response.mutable_error()->ParseFromString(status.error_details());
      response.mutable_error()->set_code(status.error_code());
      response.mutable_error()->set_message(status.error_message());
    }
    stream->Write(response);
  }
  return grpc::Status::OK;
}

grpc::Status FakeScorer::Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                                 v1::ExplainResponse* response) {
  return Answer(explain, context, request, response);
}

grpc::Status FakeScorer::GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                                  v1::Model* response) {
  return Answer(get_model, context, request, response);
}

grpc::Status FakeScorer::ListModels(grpc::ServerContext* context,
                                    const v1::ListModelsRequest* request,
                                    v1::ListModelsResponse* response) {
  return Answer(list_models, context, request, response);
}

}  // namespace canopy::client
