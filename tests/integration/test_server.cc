#include "tests/integration/test_server.h"

#include <chrono>
#include <fstream>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "core/tree/route_costs.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/channel_arguments.h"

namespace canopy::testing {
namespace {

constexpr auto kTestDeadline = std::chrono::seconds(60);

void MustBeOk(const absl::Status& status) {
  if (!status.ok()) {
    ABSL_RAW_LOG(FATAL, "%s", status.ToString().c_str());
  }
}

// Loads the fake weights of `folder` to replace the ones that serve.
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadFakeWeights(
    const std::string& folder, const Replacement& replacement,
    const std::shared_ptr<FakeControls>& controls) {
  ModelInfo info = *replacement.served;
  ++info.version;
  std::string fault;
  std::ifstream file(folder + "/weights");
  file >> info.fingerprint >> fault;
  CANOPY_RETURN_IF_ERROR(replacement.run_on_device("long", [] {
    const Stopwatch working;
    while (working.ElapsedMs() < 1) {
    }
    return absl::OkStatus();
  }));
  CANOPY_RETURN_IF_ERROR(replacement.run_on_device("short", [] { return absl::OkStatus(); }));
  controls->load_gate.WaitUntilOpen();
  CANOPY_RETURN_IF_ERROR(replacement.check_wanted());
  if (fault == "truncated") {
    return absl::DataLossError(folder + "/weights: file of 3 bytes");
  }
  if (fault == "missing") {
    return absl::NotFoundError(folder + " holds no weights");
  }
  if (fault == "config") {
    return absl::InvalidArgumentError("config: num_hidden_layers is not supported");
  }
  if (fault == "memory") {
    return absl::ResourceExhaustedError("weights need 20 bytes of memory, 10 are available");
  }
  if (fault == "bug") {
    return absl::InternalError("at " + folder);
  }
  if (fault == "vocabulary") {
    info.vocabulary_hash = "1111111111111111";
  }
  return std::make_unique<FakeRunner>(info, controls);
}

}  // namespace

server::ModelLoader FakeLoader(const std::shared_ptr<FakeControls>& controls) {
  return
      [controls](const ModelSource& model, const ModelOptions&,
                 const Replacement* replacement) -> absl::StatusOr<std::unique_ptr<ModelRunner>> {
        if (replacement != nullptr) {
          return LoadFakeWeights(model.source, *replacement, controls);
        }
        ModelInfo info = FakeModelInfo();
        info.name = model.name;
        if (model.source == "labels") {
          info.num_labels = 3;
          info.has_value_head = false;
          info.pad_token = 7;
        } else if (model.source == "vectors") {
          info.num_labels = 0;
          info.has_value_head = false;
          info.pooling = "mean";
          info.folder_normalizes = true;
          info.vocabulary_hash = "";
        } else if (model.source == "language") {
          info.has_lm_head = true;
        } else if (model.source == "path") {
          info.tree_supported = false;
          info.support_reason = "sliding-window layers";
        } else if (model.source == "measured") {
          info.fused_supported = true;
          info.default_policy = Policy::kMeasured;
          info.route_costs = std::make_shared<const RouteCosts>(
              RouteCosts{{{Backend::kPath, {1, 0, 0.5, 0}}, {Backend::kFused, {2, 0, 0.25, 0}}}});
        } else if (model.source == "decision") {
          info.score_head = ScoreHead::kDecision;
          info.has_value_head = false;
          info.temperatures = {0.5, 2, 4};
        } else if (model.source != "reward") {
          return absl::NotFoundError("no such fake");
        }
        return std::make_unique<FakeRunner>(info, controls);
      };
}

server::ServerOptions FakeServerOptions() {
  server::ServerOptions options;
  for (const char* name :
       {"reward", "labels", "vectors", "path", "decision", "language", "measured"}) {
    options.models.push_back({name, name});
  }
  options.listen = "127.0.0.1:0";
  return options;
}

TestServer::TestServer(const server::ServerOptions& options) {
  auto server = server::Server::Create(options);
  MustBeOk(server.status());
  server_ = *std::move(server);
  MustBeOk(server_->LoadModels(FakeLoader(controls_)));
  server_->Serve();
  channel_ = Connect(server_->address());
  stub_ = v1::Scorer::NewStub(channel_);
}

grpc::Status TestServer::Score(const v1::ScoreRequest& request, v1::ScoreResponse* response) {
  grpc::ClientContext context;
  SetTestDeadline(&context);
  return stub_->Score(&context, request, response);
}

grpc::Status TestServer::Explain(const v1::ExplainRequest& request, v1::ExplainResponse* response) {
  grpc::ClientContext context;
  SetTestDeadline(&context);
  return stub_->Explain(&context, request, response);
}

grpc::Status TestServer::Call(const std::string& method, const std::string& bytes,
                              std::string* response, grpc::ClientContext* context) {
  SetTestDeadline(context);
  grpc::GenericStub stub(channel_);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::Status result;
  Notification done;
  stub.UnaryCall(context, method, {}, &request, &answer, [&](grpc::Status status) {
    result = std::move(status);
    done.Notify();
  });
  done.WaitForNotification();
  grpc::Slice dumped;
  if (result.ok() && answer.DumpToSingleSlice(&dumped).ok()) {
    response->assign(reinterpret_cast<const char*>(dumped.begin()), dumped.size());
  }
  return result;
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Without a pool of its own, the channel would share a connection with others to the same
  // address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

void SetTestDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kTestDeadline);
}

v1::Question* AddQuestion(v1::ScoreRequest* request, absl::Span<const uint32_t> prefix,
                          const std::vector<std::vector<uint32_t>>& candidates) {
  v1::Question* question = request->add_questions();
  question->mutable_prefix()->mutable_ids()->Add(prefix.begin(), prefix.end());
  for (const std::vector<uint32_t>& tokens : candidates) {
    question->add_candidates()->mutable_tokens()->mutable_ids()->Add(tokens.begin(), tokens.end());
  }
  return question;
}

}  // namespace canopy::testing
