// The server around requests: loading, overload, deadlines, cancellation, drain, health, metrics,
// reflection and device faults.
#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

v1::ScoreRequest SmallRequest() {
  v1::ScoreRequest request;
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  return request;
}

// A Score call in flight.
struct PendingCall {
  grpc::ClientContext context;
  v1::ScoreRequest request = SmallRequest();
  v1::ScoreResponse response;
  grpc::Status status;
  Notification done;

  explicit PendingCall(TestServer* server) {
    SetTestDeadline(&context);
    Start(server);
  }
  PendingCall(TestServer* server, std::chrono::system_clock::time_point deadline) {
    context.set_deadline(deadline);
    Start(server);
  }
  void Start(TestServer* server) {
    server->stub().async()->Score(&context, &request, &response, [this](grpc::Status result) {
      status = std::move(result);
      done.Notify();
    });
  }
  Code Wait() {
    done.WaitForNotification();
    return status.error_code();
  }
};

// Returns the answer of the standard health service: 1 = SERVING, 2 = NOT_SERVING, -1 = an error.
// The installed library contains no generated code for it: a request is one string field, an answer
// one enum field.
int CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  const std::string bytes =
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, service.size()), service);
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetTestDeadline(&context);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  Notification done;
  grpc::Status status;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  grpc::Slice answer;
  if (!status.ok() || !response.DumpToSingleSlice(&answer).ok() || answer.size() != 2) {
    return -1;
  }
  return answer.begin()[1];
}

constexpr char kReadiness[] = "canopy.v1.Scorer";

TEST(LoadingTest, ALoadingServerIsLiveButNotReadyAndUnavailable) {
  auto server = server::Server::Create(FakeServerOptions());
  ASSERT_TRUE(server.ok());
  const auto channel = Connect((*server)->address());
  EXPECT_EQ(CheckHealth(channel, ""), 1);
  EXPECT_EQ(CheckHealth(channel, kReadiness), 2);
  grpc::ClientContext context;
  v1::ScoreResponse response;
  const auto stub = v1::Scorer::NewStub(channel);
  EXPECT_EQ(stub->Score(&context, SmallRequest(), &response).error_code(), Code::UNAVAILABLE);

  auto controls = std::make_shared<FakeControls>();
  ASSERT_TRUE((*server)->LoadModels(FakeLoader(controls)).ok());
  (*server)->Serve();
  EXPECT_EQ(CheckHealth(channel, kReadiness), 1);
  grpc::ClientContext second_context;
  EXPECT_TRUE(Succeeded(stub->Score(&second_context, SmallRequest(), &response)));
}

TEST(LoadingTest, ErrorsNameTheModel) {
  server::ServerOptions options = FakeServerOptions();
  options.models[1].source = "nothing";
  auto server = server::Server::Create(options);
  ASSERT_TRUE(server.ok());
  const absl::Status status = (*server)->LoadModels(FakeLoader(std::make_shared<FakeControls>()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--model labels: no such fake"));
}

TEST(LoadingTest, TwoServersCannotShareAPort) {
  TestServer server;
  server::ServerOptions options = FakeServerOptions();
  options.listen = server.server().address();
  EXPECT_EQ(server::Server::Create(options).status().code(), absl::StatusCode::kUnavailable);
  options.listen = "127.0.0.1:0";
  options.metrics_listen = server.server().address();
  EXPECT_EQ(server::Server::Create(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(MetricsTest, RecordedForwardsAreCounted) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const std::string page = Scrape(server.server().metrics_address());
  EXPECT_EQ(MetricValue(page, "canopy_cuda_graphs"), 3);
  EXPECT_EQ(MetricValue(page, "canopy_cuda_graph_bytes"), 4096);
}

TEST(OverloadTest, AFullQueueSaysWhenToComeBack) {
  server::ServerOptions options = FakeServerOptions();
  options.engine.scheduler.max_queued_requests = 1;
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  server.controls().gate.Close();
  PendingCall running(&server);
  server.controls().gate.AwaitWaiter();
  PendingCall waiting(&server);
  AwaitMetric(server.server().metrics_address(), kQueuedRequests, 1);

  PendingCall refused(&server);
  EXPECT_EQ(refused.Wait(), Code::RESOURCE_EXHAUSTED);
  const auto retry = FindDetail<google::rpc::RetryInfo>(refused.status);
  ASSERT_NE(retry, nullptr);
  const int64_t delay_ms =
      retry->retry_delay().seconds() * 1'000 + retry->retry_delay().nanos() / 1'000'000;
  EXPECT_GT(delay_ms, 0);
  const auto& trailers = refused.context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_EQ(std::string(pushback->second.data(), pushback->second.size()), absl::StrCat(delay_ms));

  server.controls().gate.Open();
  EXPECT_EQ(running.Wait(), Code::OK);
  EXPECT_EQ(waiting.Wait(), Code::OK);
}

TEST(OverloadTest, APathTooLargeForTheDeviceMustNotBeRetried) {
  TestServer server;
  server.controls().LimitSlots(2);
  PendingCall call(&server);
  EXPECT_EQ(call.Wait(), Code::RESOURCE_EXHAUSTED);
  const auto info = FindDetail<google::rpc::ErrorInfo>(call.status);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->reason(), "PATH_TOO_LARGE_FOR_DEVICE");
  EXPECT_EQ(info->domain(), "canopy.v1");
  EXPECT_EQ(FindDetail<google::rpc::RetryInfo>(call.status), nullptr);
  EXPECT_EQ(call.context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms")->second, "-1");

  server.controls().LimitSlots(0);
  PendingCall next(&server);
  EXPECT_EQ(next.Wait(), Code::OK);
}

TEST(DeadlineTest, LateAndCancelledRequestsNeverReachTheDevice) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const std::string metrics = server.server().metrics_address();
  server.controls().gate.Close();
  PendingCall running(&server);
  server.controls().gate.AwaitWaiter();
  PendingCall cancelled(&server);
  AwaitMetric(metrics, kQueuedRequests, 1);
  PendingCall late(&server, std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(late.Wait(), Code::DEADLINE_EXCEEDED);
  cancelled.context.TryCancel();
  EXPECT_EQ(cancelled.Wait(), Code::CANCELLED);
  AwaitMetric(metrics, "canopy_requests_in_flight{method=\"Score\"}", 1);

  server.controls().gate.Open();
  EXPECT_EQ(running.Wait(), Code::OK);
  AwaitMetric(metrics, "canopy_requests_in_flight{method=\"Score\"}", 0);
  EXPECT_EQ(server.controls().forwards(), 1);
  const std::string page = Scrape(metrics);
  const auto count = [&](absl::string_view code) {
    // Series without counts are not on the page.
    return std::max(0.0, MetricValue(page, absl::StrCat("canopy_requests_total{code=\"", code,
                                                        "\",method=\"Score\"}")));
  };
  EXPECT_EQ(count("OK"), 1);
  // The late caller also ends its call, and the server may see that before its own timer fires.
  EXPECT_EQ(count("CANCELLED") + count("DEADLINE_EXCEEDED"), 2);
  EXPECT_GE(count("CANCELLED"), 1);
  EXPECT_GE(MetricValue(page, "canopy_abandoned_requests_total{method=\"Score\"}"), 1);
}

// The client's own timer does not fire, because the deadline is sent to the server as metadata
// only.
TEST(DeadlineTest, TheServersOwnClockEndsACall) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  server.controls().gate.Close();
  PendingCall running(&server);
  server.controls().gate.AwaitWaiter();
  grpc::ClientContext context;
  context.AddMetadata("grpc-timeout", "100m");
  v1::ScoreResponse response;
  EXPECT_EQ(server.stub().Score(&context, SmallRequest(), &response).error_code(),
            Code::DEADLINE_EXCEEDED);
  AwaitMetric(server.server().metrics_address(), "canopy_ended_requests_total{outcome=\"expired\"}",
              1);
  server.controls().gate.Open();
  EXPECT_EQ(running.Wait(), Code::OK);
  EXPECT_EQ(server.controls().forwards(), 1);
}

TEST(DeadlineTest, DeadlinesFarAwayAreNone) {
  TestServer server;
  PendingCall call(&server, std::chrono::system_clock::now() + std::chrono::hours(24 * 3'650));
  EXPECT_EQ(call.Wait(), Code::OK);
}

TEST(DrainTest, RefusesNewCallsAndFinishesThoseInFlight) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  server.controls().gate.Close();
  PendingCall running(&server);
  server.controls().gate.AwaitWaiter();
  PendingCall waiting(&server);
  AwaitMetric(server.server().metrics_address(), kQueuedRequests, 1);

  std::future<bool> drained =
      std::async(std::launch::async, [&] { return server.server().Drain(absl::Seconds(60)); });
  while (CheckHealth(server.channel(), kReadiness) != 2) {
    std::this_thread::yield();
  }
  EXPECT_EQ(CheckHealth(server.channel(), ""), 1);
  v1::ScoreResponse response;
  grpc::Status refused = server.Score(SmallRequest(), &response);
  while (refused.ok()) {
    refused = server.Score(SmallRequest(), &response);
  }
  EXPECT_EQ(refused.error_code(), Code::UNAVAILABLE);

  server.controls().gate.Open();
  EXPECT_EQ(running.Wait(), Code::OK);
  EXPECT_EQ(waiting.Wait(), Code::OK);
  EXPECT_TRUE(drained.get());
  // The server has stopped listening.
  EXPECT_EQ(CheckHealth(Connect(server.server().address()), ""), -1);
}

TEST(DrainTest, CancelsWhatIsStillInFlightAfterTheGrace) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const std::string metrics = server.server().metrics_address();
  server.controls().gate.Close();
  PendingCall running(&server);
  server.controls().gate.AwaitWaiter();
  PendingCall waiting(&server);
  AwaitMetric(metrics, kQueuedRequests, 1);
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return server.server().Drain(absl::Milliseconds(1)); });
  EXPECT_EQ(waiting.Wait(), Code::UNAVAILABLE);
  EXPECT_FALSE(drained.get());
  AwaitMetric(metrics, "canopy_ended_requests_total{outcome=\"cancelled\"}", 2);
  server.controls().gate.Open();
  // The running forward is not interrupted; the waiting one never starts.
  AwaitMetric(metrics, "canopy_forward_requests_count", 1);
  EXPECT_EQ(server.controls().forwards(), 1);
}

TEST(HealthTest, ALostDeviceFailsLivenessAndCalls) {
  TestServer server;
  EXPECT_TRUE(server.server().CheckHealth());
  server.controls().FailWith(absl::UnavailableError("illegal address\n  at /some/path.cu:12"));
  PendingCall lost(&server);
  EXPECT_EQ(lost.Wait(), Code::UNAVAILABLE);
  EXPECT_FALSE(absl::StrContains(lost.status.error_message(), "/some/path"));
  EXPECT_FALSE(server.server().CheckHealth());
  EXPECT_EQ(CheckHealth(server.channel(), ""), 2);
  EXPECT_EQ(CheckHealth(server.channel(), kReadiness), 2);
}

TEST(HealthTest, OwnListenerServesHealthAlone) {
  server::ServerOptions options = FakeServerOptions();
  options.health_listen = "127.0.0.1:0";
  TestServer server(options);
  const auto channel = Connect(server.server().health_address());
  EXPECT_EQ(CheckHealth(channel, ""), 1);
  EXPECT_EQ(CheckHealth(channel, kReadiness), 1);
  EXPECT_EQ(CheckHealth(channel, "nobody"), -1);
  grpc::ClientContext context;
  v1::ScoreResponse response;
  const grpc::Status status =
      v1::Scorer::NewStub(channel)->Score(&context, SmallRequest(), &response);
  EXPECT_EQ(status.error_code(), Code::UNIMPLEMENTED);
  const std::string address = server.server().address();
  EXPECT_EQ(status.error_message(),
            absl::StrCat("this is the server's --health_listen, which only answers health checks; "
                         "canopy.v1.Scorer is on port ",
                         address.substr(address.rfind(':') + 1), " (--listen)"));
}

TEST(InternalErrorTest, GivesAnIdAndNothingElse) {
  TestServer server;
  server.controls().FailWith(absl::InternalError("secret text at /some/path"));
  PendingCall call(&server);
  EXPECT_EQ(call.Wait(), Code::INTERNAL);
  EXPECT_TRUE(absl::StartsWith(call.status.error_message(), "internal error "));
  EXPECT_EQ(call.status.error_message().size(), std::string("internal error ").size() + 16);
  EXPECT_EQ(call.status.error_details(), "");
}

// Returns whether the server answers a reflection call.
bool HasReflection(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetTestDeadline(&context);
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  int tags[4] = {};
  void* tag = nullptr;
  bool ok = false;
  stream->StartCall(&tags[0]);
  queue.Next(&tag, &ok);
  // list_services = 7: ""
  const grpc::Slice slice(std::string("\x3a\x00", 2));
  stream->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), &tags[1]);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  stream->Read(&answer, &tags[2]);
  queue.Next(&tag, &ok);
  const bool answered = ok;
  grpc::Status status;
  stream->Finish(&status, &tags[3]);
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), answered ? Code::OK : Code::UNIMPLEMENTED);
  return answered;
}

TEST(ReflectionTest, AnswersOnlyWhenAskedFor) {
  server::ServerOptions options = FakeServerOptions();
  options.health_listen = "127.0.0.1:0";
  EXPECT_FALSE(HasReflection(TestServer(options).channel()));
  options.reflection = true;
  TestServer server(options);
  EXPECT_TRUE(HasReflection(server.channel()));
  EXPECT_FALSE(HasReflection(Connect(server.server().health_address())));
}

// Token 7 is the padding of the fake classifier with labels. The other models have no padding.
TEST(MetricsTest, CountsRequestsThatScoreAPathWhichEndsInPadding) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const auto count = [&server] {
    return MetricValue(Scrape(server.server().metrics_address()),
                       "canopy_pad_ended_requests_total");
  };
  const auto score = [&server](const std::string& model, std::vector<uint32_t> candidate) {
    v1::ScoreRequest request;
    request.set_model(model);
    AddQuestion(&request, {1, 7}, {{7, 3}, std::move(candidate)});
    v1::ScoreResponse response;
    EXPECT_TRUE(Succeeded(server.Score(request, &response)));
  };
  score("labels", {3});
  score("reward", {7});
  EXPECT_EQ(count(), 0);
  score("labels", {3, 7});
  score("labels", {});
  EXPECT_EQ(count(), 2);
}

TEST(ModelTest, TheModelShowsPoolingAndPaddingOfTheFolder) {
  TestServer server(FakeServerOptions());
  v1::ListModelsResponse models;
  grpc::ClientContext context;
  ASSERT_TRUE(Succeeded(v1::Scorer::NewStub(server.channel())->ListModels(&context, {}, &models)));
  for (const v1::Model& model : models.models()) {
    EXPECT_EQ(model.has_pad_token(), model.name() == "labels") << model.name();
    EXPECT_EQ(model.pooling(), model.name() == "vectors" ? "mean" : "") << model.name();
    EXPECT_EQ(model.folder_normalizes(), model.name() == "vectors") << model.name();
  }
}

TEST(MetricsTest, CountsRequestsTokensRoutesAndStages) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  v1::ScoreRequest request = SmallRequest();
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  request.mutable_routing()->set_backend(v1::BACKEND_DENSE);
  server.controls().PoisonToken(4);
  ASSERT_TRUE(Succeeded(server.Score(request, &response)));
  request.set_model("nobody");
  ASSERT_FALSE(server.Score(request, &response).ok());

  const std::string page = Scrape(server.server().metrics_address());
  EXPECT_THAT(page, HasSubstr("HTTP/1.1 200 OK"));
  const auto expect = [&page](const std::string& series, double value) {
    EXPECT_EQ(MetricValue(page, series), value) << series;
  };
  expect("canopy_requests_total{code=\"OK\",method=\"Score\"}", 2);
  expect("canopy_requests_total{code=\"NOT_FOUND\",method=\"Score\"}", 1);
  expect("canopy_requests_in_flight{method=\"Score\"}", 0);
  expect(kQueuedRequests, 0);
  expect("canopy_queued_requests{priority=\"low\"}", 0);
  expect("canopy_queued_tokens", 0);
  expect("canopy_accepted_requests_total", 2);
  expect("canopy_ended_requests_total{outcome=\"answered\"}", 2);
  expect("canopy_ended_requests_total{outcome=\"cancelled\"}", 0);
  expect("canopy_refused_requests_total{reason=\"queued_requests\"}", 0);
  expect("canopy_wasted_device_seconds_total", 0);
  EXPECT_GT(MetricValue(page, "canopy_device_busy_seconds_total"), 0);
  // The second request ran again path by path.
  expect("canopy_forward_requests_count", 3);
  expect("canopy_forward_requests_sum", 3);
  expect("canopy_forward_fill_ratio_count", 3);
  expect("canopy_paths_total", 4);
  expect("canopy_unscored_paths_total", 1);
  expect("canopy_path_tokens_total", 12);
  expect("canopy_input_tokens_total", 12);
  expect("canopy_unique_tokens_total", 4);
  expect("canopy_routes_total{backend=\"path\",reason=\"small_batch\"}", 1);
  expect("canopy_routes_total{backend=\"dense\",reason=\"non_finite_rerun\"}", 1);
  expect("canopy_limit{name=\"max_paths\"}", 65'536);
  EXPECT_GT(MetricValue(page, "canopy_computed_tokens_total"), 0);
  for (const char* stage : {"decode", "plan", "device", "encode_queue", "encode", "total"}) {
    expect(absl::StrCat("canopy_", stage, "_seconds_count"), 2);
    EXPECT_GT(MetricValue(page, absl::StrCat("canopy_", stage, "_seconds_sum")), 0);
  }
  expect("canopy_queue_seconds_count{priority=\"normal\"}", 2);
  expect("canopy_queue_seconds_count{priority=\"low\"}", 0);
  EXPECT_THAT(page, HasSubstr("canopy_model_info{"));
  EXPECT_THAT(page, HasSubstr("canopy_build_info{version="));
  EXPECT_FALSE(absl::StrContains(page, "nobody"));
}

TEST(MetricsTest, HttpRefusesEverythingElse) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  const std::string address = server.server().metrics_address();
  EXPECT_THAT(Http(address, "GET /metrics?x=1 HTTP/1.0\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(Http(address, "GET / HTTP/1.1\r\n\r\n"), HasSubstr(" 404 "));
  EXPECT_THAT(Http(address, "POST /metrics HTTP/1.1\r\n\r\n"), HasSubstr(" 405 "));
  EXPECT_THAT(Http(address, "nonsense\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(Http(address, std::string(9'000, 'x')), HasSubstr(" 431 "));
  EXPECT_THAT(Scrape(address), HasSubstr(" 200 "));
}

}  // namespace
}  // namespace canopy::testing
