// A real server with fake models in this process, and clients that reach it over loopback.
#ifndef TESTS_INTEGRATION_TEST_SERVER_H_
#define TESTS_INTEGRATION_TEST_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "canopy/v1/scorer.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "server/server.h"
#include "tests/testing/fake_runner.h"

namespace canopy::testing {

// Loads fakes. The source of a model chooses its kind: "reward" (one label), "labels" (three
// labels), "vectors" (no scoring head), "path" (one label, tree backends unsupported), "decision"
// (a head over whole questions, with temperatures 0.5, 2 and 4 for boolean, choice and score),
// "language" (one label and a language-model head), or "measured" (one label; routed by the costs 2
// ms per forward and 0.25 ms per token for fused, and 1 ms and 0.5 ms for path).
server::ModelLoader FakeLoader(const std::shared_ptr<FakeControls>& controls);

// Under weights_root, a folder is a checkpoint for any of the fakes. Its file `weights` contains
// the fingerprint and, after a space, a fault: nothing, "truncated" (DATA_LOSS), "missing"
// (NOT_FOUND), "config" (INVALID_ARGUMENT), "memory" (RESOURCE_EXHAUSTED), "vocabulary" (a
// different one from the model that serves), or "bug" (INTERNAL). Its forwards return the values of
// tests/testing/fake_runner.h for the version. Loading does some work on the device and waits at
// controls->load_gate.

// Returns options with all fakes, "reward" first, on free ports.
server::ServerOptions FakeServerOptions();

class TestServer {
 public:
  explicit TestServer(const server::ServerOptions& options = FakeServerOptions());

  server::Server& server() { return *server_; }
  FakeControls& controls() { return *controls_; }
  v1::Scorer::StubInterface& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }

  // Calls have a deadline that only a hanging test reaches.
  grpc::Status Score(const v1::ScoreRequest& request, v1::ScoreResponse* response);
  grpc::Status Explain(const v1::ExplainRequest& request, v1::ExplainResponse* response);
  // Calls `method` with arbitrary bytes.
  grpc::Status Call(const std::string& method, const std::string& bytes, std::string* response,
                    grpc::ClientContext* context);

 private:
  const std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  std::unique_ptr<server::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Scorer::Stub> stub_;
};

// For EXPECT_TRUE: shows the status of a call that failed.
inline ::testing::AssertionResult Succeeded(const grpc::Status& status) {
  return status.ok() ? ::testing::AssertionSuccess()
                     : ::testing::AssertionFailure()
                           << "code " << status.error_code() << ": " << status.error_message();
}

// Returns a channel without limits on received messages.
std::shared_ptr<grpc::Channel> Connect(const std::string& address);

// Sets a deadline that only a hanging test reaches.
void SetTestDeadline(grpc::ClientContext* context);

// Appends a question and returns it for further changes.
v1::Question* AddQuestion(v1::ScoreRequest* request, absl::Span<const uint32_t> prefix,
                          const std::vector<std::vector<uint32_t>>& candidates);

// Returns the detail of type Detail of an error; absent if it has none.
template <typename Detail>
std::unique_ptr<Detail> FindDetail(const grpc::Status& status) {
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details()) {
      auto detail = std::make_unique<Detail>();
      if (any.UnpackTo(detail.get())) {
        return detail;
      }
    }
  }
  return nullptr;
}

}  // namespace canopy::testing

#endif  // TESTS_INTEGRATION_TEST_SERVER_H_
