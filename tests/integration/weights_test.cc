// Weights that change while a server serves: the answers of LoadWeights, and that one version
// answers all of each request, whatever happens at the same time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "canopy/v1/admin.grpc.pb.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = grpc::StatusCode;

std::string FingerprintOf(int64_t version) {
  return version == 1 ? FakeModelInfo().fingerprint : absl::StrFormat("%016d", version);
}

// Returns 20 paths of 9 random tokens: three forwards of at most 64 tokens.
v1::ScoreRequest RequestInParts(uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::vector<uint32_t>> candidates(20);
  for (std::vector<uint32_t>& tokens : candidates) {
    tokens.resize(8);
    std::generate(tokens.begin(), tokens.end(),
                  [&random] { return static_cast<uint32_t>(random() % 1'000); });
  }
  v1::ScoreRequest request;
  request.set_request_id(absl::StrCat(seed));
  AddQuestion(&request, {7}, candidates);
  return request;
}

// Returns the version that answered, after checking that it answered everything; 0 = the answer is
// wrong.
int64_t VersionOf(const v1::ScoreRequest& request, const v1::ScoreResponse& response) {
  const auto version = static_cast<int64_t>(response.model_version());
  EXPECT_EQ(response.model_fingerprint(), FingerprintOf(version));
  if (response.results_size() != 1) {
    ADD_FAILURE() << "no answer: " << response.error().message();
    return 0;
  }
  for (int i = 0; i < request.questions(0).candidates_size(); ++i) {
    std::vector<int32_t> path = {7};
    for (const uint32_t token : request.questions(0).candidates(i).tokens().ids()) {
      path.push_back(static_cast<int32_t>(token));
    }
    if (response.results(0).candidates(i).score() != FakeScore(path, 0, version)) {
      ADD_FAILURE() << "candidate " << i << " is not of version " << version;
      return 0;
    }
  }
  return version;
}

class WeightsTest : public ::testing::Test {
 protected:
  explicit WeightsTest(server::ServerOptions options = FakeServerOptions()) {
    options.admin_listen = "127.0.0.1:0";
    options.metrics_listen = "127.0.0.1:0";
    options.weights_root = root_.path();
    options.model.max_batch_tokens = 64;
    server_ = std::make_unique<TestServer>(options);
    channel_ = Connect(server_->server().admin_address());
    admin_ = v1::Admin::NewStub(channel_);
  }

  // Writes a checkpoint folder; see test_server.h.
  void Write(const std::string& name, const std::string& weights) const {
    std::filesystem::create_directories(root_.Join(name));
    root_.Write(name + "/weights", weights);
  }

  grpc::Status Load(const v1::LoadWeightsRequest& request) {
    grpc::ClientContext context;
    SetTestDeadline(&context);
    return admin_->LoadWeights(&context, request, &model_);
  }

  grpc::Status Load(const std::string& source) {
    v1::LoadWeightsRequest request;
    request.set_source(source);
    return Load(request);
  }

  // Makes version `version` serve.
  void Swap(int64_t version) {
    Write("next", FingerprintOf(version));
    EXPECT_TRUE(Succeeded(Load("next")));
    EXPECT_EQ(model_.version(), static_cast<uint64_t>(version));
  }

  int64_t ServingVersion() {
    const v1::ScoreRequest request = RequestInParts(3);
    v1::ScoreResponse response;
    EXPECT_TRUE(Succeeded(server_->Score(request, &response)));
    return VersionOf(request, response);
  }

  std::string Metrics() { return Scrape(server_->server().metrics_address()); }

  const TemporaryFolder root_;
  std::unique_ptr<TestServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  v1::Model model_;  // the answer of the last load
};

TEST_F(WeightsTest, TheAdminListenerNamesTheScoringPort) {
  grpc::ClientContext context;
  SetTestDeadline(&context);
  v1::ScoreResponse response;
  const grpc::Status status =
      v1::Scorer::NewStub(channel_)->Score(&context, RequestInParts(1), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(),
              ::testing::HasSubstr("this is the server's --admin_listen, which only loads weights; "
                                   "canopy.v1.Scorer is on port "));
}

TEST_F(WeightsTest, NewWeightsAnswerAndAreNamedEverywhere) {
  EXPECT_EQ(ServingVersion(), 1);
  Write("step-2", FingerprintOf(2));
  v1::LoadWeightsRequest load;
  load.set_model("reward");
  load.set_source("step-2");
  load.set_expected_fingerprint(FingerprintOf(2));
  ASSERT_TRUE(Succeeded(Load(load)));
  EXPECT_EQ(model_.name(), "reward");
  EXPECT_EQ(model_.version(), 2U);
  EXPECT_EQ(model_.fingerprint(), FingerprintOf(2));
  EXPECT_EQ(model_.limits().at("max_batch_tokens"), 64U);
  EXPECT_EQ(ServingVersion(), 2);

  grpc::ClientContext context;
  v1::Model described;
  ASSERT_TRUE(Succeeded(server_->stub().GetModel(&context, {}, &described)));
  EXPECT_EQ(described.DebugString(), model_.DebugString());
  const std::string page = Metrics();
  EXPECT_EQ(MetricValue(page, "canopy_model_version{model=\"reward\"}"), 2);
  EXPECT_EQ(MetricValue(page, "canopy_model_version{model=\"labels\"}"), 1);
  EXPECT_THAT(page, HasSubstr(FingerprintOf(2)));
  EXPECT_EQ(MetricValue(page, "canopy_requests_total{code=\"OK\",method=\"LoadWeights\"}"), 1);
  // There is one line per model, whatever it served before.
  size_t lines = 0;
  for (size_t at = page.find("canopy_model_info{"); at != page.npos;
       at = page.find("canopy_model_info{", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, FakeServerOptions().models.size());
}

TEST_F(WeightsTest, TheLogNamesTheLongestDeviceTimeSlice) {
  ::testing::internal::CaptureStderr();
  Swap(2);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("device_turns=2 longest_turn_ms="));
  EXPECT_THAT(log, HasSubstr("longest_turn=long\n"));
}

TEST_F(WeightsTest, TheLogNamesTheFolderForEveryOutcome) {
  Write("step-2", FingerprintOf(2));
  const std::string hostile = "\n" + std::string(200, 'y');
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Succeeded(Load("step-2")));
  EXPECT_EQ(Load(hostile).error_code(), Code::NOT_FOUND);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("weights_loading model=reward folder=step-2 version=2\n"));
  EXPECT_THAT(log, HasSubstr("weights_serving model=reward folder=step-2 version=2 "));
  const std::string cut = "folder=\"\\u000a" + std::string(127, 'y') + "...\" ";
  EXPECT_THAT(log, HasSubstr("weights_loading model=reward " + cut));
  EXPECT_THAT(log, HasSubstr("weights_refused model=reward " + cut));
}

TEST_F(WeightsTest, AFailedLoadKeepsTheOldWeightsServing) {
  root_.Write("file", "no folder");
  for (const char* fault :
       {"truncated", "missing", "config", "memory", "vocabulary", "bug", "good"}) {
    Write(fault, absl::StrCat(FingerprintOf(2), " ", fault));
  }
  const struct {
    std::string source;
    Code code;
    std::string text;
  } cases[] = {
      {"", Code::INVALID_ARGUMENT, "source"},
      {".", Code::INVALID_ARGUMENT, "source"},
      {"..", Code::INVALID_ARGUMENT, "source"},
      {"a/b", Code::INVALID_ARGUMENT, "source"},
      {"/etc", Code::INVALID_ARGUMENT, "source"},
      {"../x", Code::INVALID_ARGUMENT, "source"},
      {"good/", Code::INVALID_ARGUMENT, "source"},
      {"a\\b", Code::INVALID_ARGUMENT, "source"},
      {std::string("good\0x", 6), Code::INVALID_ARGUMENT, "source"},
      {std::string(256, 'x'), Code::INVALID_ARGUMENT, "source"},
      {"absent", Code::NOT_FOUND, "absent"},
      {"file", Code::NOT_FOUND, "file"},
      {"truncated", Code::DATA_LOSS, "truncated/weights: file of 3 bytes"},
      {"missing", Code::DATA_LOSS, "holds no weights"},
      {"config", Code::DATA_LOSS, "num_hidden_layers"},
      {"memory", Code::RESOURCE_EXHAUSTED, "need 20 bytes of memory, 10 are available"},
      {"vocabulary", Code::FAILED_PRECONDITION, "vocabulary_hash 1111111111111111"},
      {"bug", Code::INTERNAL, "internal error "},
  };
  for (const auto& bad : cases) {
    const grpc::Status status = Load(bad.source);
    EXPECT_EQ(status.error_code(), bad.code) << bad.source << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(bad.text));
    EXPECT_THAT(status.error_message(), Not(HasSubstr(root_.path())));
    EXPECT_EQ(ServingVersion(), 1) << bad.source;
    if (bad.code == Code::INVALID_ARGUMENT) {
      const auto detail = FindDetail<google::rpc::BadRequest>(status);
      ASSERT_NE(detail, nullptr);
      EXPECT_EQ(detail->field_violations(0).field(), "source");
    }
  }
  v1::LoadWeightsRequest load;
  load.set_source("good");
  load.set_expected_fingerprint("abc");
  grpc::Status status = Load(load);
  EXPECT_EQ(status.error_code(), Code::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr(FingerprintOf(2)));
  load.set_model("nobody");
  status = Load(load);
  EXPECT_EQ(status.error_code(), Code::NOT_FOUND);
  ASSERT_NE(FindDetail<google::rpc::ResourceInfo>(status), nullptr);
  EXPECT_EQ(ServingVersion(), 1);
  // The folder "good" loads without a fault.
  EXPECT_TRUE(Succeeded(Load("good")));
  EXPECT_EQ(ServingVersion(), 2);
}

TEST_F(WeightsTest, WantOfMemoryIsNotRetried) {
  Write("memory", absl::StrCat(FingerprintOf(2), " memory"));
  grpc::ClientContext context;
  SetTestDeadline(&context);
  v1::LoadWeightsRequest load;
  load.set_source("memory");
  const grpc::Status status = admin_->LoadWeights(&context, load, &model_);
  const auto info = FindDetail<google::rpc::ErrorInfo>(status);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->reason(), "NO_MEMORY_FOR_WEIGHTS");
  EXPECT_EQ(context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms")->second, "-1");
}

TEST_F(WeightsTest, TheAdminServiceIsNotOnTheOtherListener) {
  grpc::ClientContext context;
  SetTestDeadline(&context);
  EXPECT_EQ(v1::Admin::NewStub(server_->channel())->LoadWeights(&context, {}, &model_).error_code(),
            Code::UNIMPLEMENTED);
  grpc::ClientContext other;
  SetTestDeadline(&other);
  v1::ScoreResponse response;
  EXPECT_EQ(v1::Scorer::NewStub(channel_)->Score(&other, RequestInParts(1), &response).error_code(),
            Code::UNIMPLEMENTED);
}

// A load that waits at its gate.
struct PendingLoad {
  grpc::ClientContext context;
  v1::LoadWeightsRequest request;
  v1::Model model;
  grpc::Status status;
  Notification done;

  PendingLoad(v1::Admin::Stub* admin, FakeControls* controls, const std::string& source) {
    SetTestDeadline(&context);
    request.set_source(source);
    admin->async()->LoadWeights(&context, &request, &model, [this](grpc::Status result) {
      status = std::move(result);
      done.Notify();
    });
    controls->load_gate.AwaitWaiter();
  }
};

TEST_F(WeightsTest, ASecondLoadIsRefusedWithARetryDelay) {
  Write("next", FingerprintOf(2));
  server_->controls().load_gate.Close();
  PendingLoad first(admin_.get(), &server_->controls(), "next");
  const grpc::Status refused = Load("next");
  EXPECT_EQ(refused.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_NE(FindDetail<google::rpc::RetryInfo>(refused), nullptr);
  // Requests are served meanwhile.
  EXPECT_EQ(ServingVersion(), 1);
  server_->controls().load_gate.Open();
  first.done.WaitForNotification();
  EXPECT_TRUE(Succeeded(first.status));
  EXPECT_EQ(ServingVersion(), 2);
}

TEST_F(WeightsTest, ALoadWhoseCallerLeavesSwapsNothing) {
  Write("next", FingerprintOf(2));
  server_->controls().load_gate.Close();
  PendingLoad left(admin_.get(), &server_->controls(), "next");
  left.context.TryCancel();
  AwaitMetric(server_->server().metrics_address(),
              "canopy_abandoned_requests_total{method=\"LoadWeights\"}", 1);
  server_->controls().load_gate.Open();
  left.done.WaitForNotification();
  EXPECT_EQ(left.status.error_code(), Code::CANCELLED);
  AwaitMetric(server_->server().metrics_address(),
              "canopy_requests_total{code=\"CANCELLED\",method=\"LoadWeights\"}", 1);
  EXPECT_EQ(ServingVersion(), 1);
  Swap(2);
}

TEST_F(WeightsTest, ADrainEndsALoad) {
  Write("next", FingerprintOf(2));
  server_->controls().load_gate.Close();
  PendingLoad load(admin_.get(), &server_->controls(), "next");
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return server_->server().Drain(absl::Seconds(60)); });
  v1::ScoreResponse response;
  while (server_->Score(RequestInParts(1), &response).ok()) {
  }
  server_->controls().load_gate.Open();
  load.done.WaitForNotification();
  EXPECT_EQ(load.status.error_code(), Code::UNAVAILABLE);
  EXPECT_TRUE(drained.get());
}

TEST_F(WeightsTest, AnOlderVersionThanRequestedIsRefused) {
  v1::ScoreRequest request = RequestInParts(1);
  request.set_min_model_version(2);
  v1::ScoreResponse response;
  const grpc::Status refused = server_->Score(request, &response);
  EXPECT_EQ(refused.error_code(), Code::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("min_model_version: 2 of model reward"));
  EXPECT_THAT(refused.error_message(), HasSubstr("the loaded version is 1"));
  grpc::ClientContext context;
  SetTestDeadline(&context);
  const auto stream = server_->stub().ScoreStream(&context);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error().code(), Code::FAILED_PRECONDITION);
  EXPECT_EQ(response.error().message(), refused.error_message());
  Swap(2);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(VersionOf(request, response), 2);
  ASSERT_TRUE(Succeeded(server_->Score(request, &response)));
  EXPECT_EQ(VersionOf(request, response), 2);
  stream->WritesDone();
  EXPECT_TRUE(Succeeded(stream->Finish()));
}

// Sends requests on one stream, `in_flight` at a time, until it has sent one after `stop` is true.
// Counts `begun` down at the first answer. Returns the versions that answered.
std::vector<int64_t> RunStream(TestServer* server, uint32_t first_seed, int in_flight,
                               BlockingCounter* begun, const std::atomic<bool>* stop) {
  grpc::ClientContext context;
  SetTestDeadline(&context);
  const auto stream =
      v1::Scorer::NewStub(Connect(server->server().address()))->ScoreStream(&context);
  std::vector<int64_t> versions;
  int sent = 0;
  bool is_last = false;
  const auto send = [&] {
    is_last = *stop;
    EXPECT_TRUE(stream->Write(RequestInParts(first_seed + static_cast<uint32_t>(sent++))));
  };
  while (sent < in_flight) {
    send();
  }
  while (static_cast<int>(versions.size()) < sent) {
    v1::ScoreResponse response;
    uint32_t seed = 0;
    if (!stream->Read(&response) || !absl::SimpleAtoi(response.request_id(), &seed)) {
      ADD_FAILURE() << "answer " << versions.size() << " is missing";
      break;
    }
    versions.push_back(VersionOf(RequestInParts(seed), response));
    EXPECT_GT(response.stats().parts(), 1U);
    if (versions.size() == 1) {
      begun->DecrementCount();
    }
    if (!is_last) {
      send();
    }
  }
  if (versions.empty()) {
    begun->DecrementCount();  // nobody must wait for this stream
  }
  stream->WritesDone();
  EXPECT_TRUE(Succeeded(stream->Finish()));
  return versions;
}

TEST_F(WeightsTest, UnderLoadEveryAnswerIsOfOneVersionAndNoneFails) {
  constexpr int64_t kLastVersion = 12;
  const int in_flight[] = {1, 1, 4, 8};
  BlockingCounter begun(static_cast<int>(std::size(in_flight)));
  std::atomic<bool> stop{false};
  std::vector<std::future<std::vector<int64_t>>> streams;
  for (size_t i = 0; i < std::size(in_flight); ++i) {
    streams.push_back(std::async(std::launch::async, [&, i] {
      return RunStream(server_.get(), static_cast<uint32_t>(1'000'000 * (i + 1)), in_flight[i],
                       &begun, &stop);
    }));
  }
  begun.Wait();
  for (int64_t version = 2; version <= kLastVersion; ++version) {
    Swap(version);
  }
  stop = true;
  for (size_t i = 0; i < streams.size(); ++i) {
    const std::vector<int64_t> versions = streams[i].get();
    ASSERT_FALSE(versions.empty());
    EXPECT_EQ(*std::min_element(versions.begin(), versions.end()), 1);
    EXPECT_EQ(*std::max_element(versions.begin(), versions.end()), kLastVersion);
    // A client that has seen an answer never gets an answer of an older version.
    if (in_flight[i] == 1) {
      EXPECT_TRUE(std::is_sorted(versions.begin(), versions.end()));
    }
  }
  EXPECT_EQ(ServingVersion(), kLastVersion);
}

class WeightsUnderPressureTest : public WeightsTest {
 protected:
  WeightsUnderPressureTest() : WeightsTest(Options()) {}

  static server::ServerOptions Options() {
    server::ServerOptions options = FakeServerOptions();
    options.engine.scheduler.max_queued_requests = 4;
    return options;
  }
};

// Clients send more than the queue can hold, some with deadlines that pass and some that leave,
// while weights change and the server is told to stop.
TEST_F(WeightsUnderPressureTest, EveryRequestEndsOnceWhateverHappensTogether) {
  constexpr int kThreads = 6;
  std::atomic<int64_t> sent{0};
  std::atomic<int64_t> answered{0};
  std::atomic<int64_t> unavailable{0};
  std::vector<std::thread> clients;
  clients.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    clients.emplace_back([&, thread] {
      const auto stub = v1::Scorer::NewStub(Connect(server_->server().address()));
      for (uint32_t i = 0; unavailable.load() < kThreads; ++i) {
        const v1::ScoreRequest request = RequestInParts(static_cast<uint32_t>(thread) * 10'000 + i);
        grpc::ClientContext context;
        SetTestDeadline(&context);
        if (i % 4 == 1) {
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(i % 7));
        }
        ++sent;
        v1::ScoreResponse response;
        Notification done;
        grpc::Status status;
        stub->async()->Score(&context, &request, &response, [&](grpc::Status result) {
          status = std::move(result);
          done.Notify();
        });
        if (i % 4 == 3) {
          context.TryCancel();
        }
        done.WaitForNotification();
        switch (status.error_code()) {
          case Code::OK:
            EXPECT_GT(VersionOf(request, response), 0);
            ++answered;
            break;
          case Code::UNAVAILABLE:
            ++unavailable;
            break;
          case Code::RESOURCE_EXHAUSTED:
          case Code::DEADLINE_EXCEEDED:
          case Code::CANCELLED:
            break;
          default:
            ADD_FAILURE() << status.error_code() << ": " << status.error_message();
        }
      }
    });
  }
  for (int64_t version = 2; version < 12; ++version) {
    Swap(version);
  }
  server_->controls().load_gate.Close();
  Write("next", FingerprintOf(12));
  PendingLoad last(admin_.get(), &server_->controls(), "next");
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return server_->server().Drain(absl::Seconds(60)); });
  for (std::thread& client : clients) {
    client.join();
  }
  server_->controls().load_gate.Open();
  last.done.WaitForNotification();
  EXPECT_EQ(last.status.error_code(), Code::UNAVAILABLE);
  EXPECT_TRUE(drained.get());

  const std::string page = Metrics();
  const auto value = [&page](const std::string& series) {
    const double found = MetricValue(page, series);
    return found < 0 ? 0 : found;
  };
  double ended = 0;
  for (const char* outcome : {"answered", "displaced", "expired", "cancelled"}) {
    ended += value(absl::StrCat("canopy_ended_requests_total{outcome=\"", outcome, "\"}"));
  }
  EXPECT_EQ(value("canopy_accepted_requests_total"), ended);
  EXPECT_GE(ended, static_cast<double>(answered.load()));
  double finished = 0;
  for (const char* code :
       {"OK", "CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}) {
    finished += value(absl::StrCat("canopy_requests_total{code=\"", code, "\",method=\"Score\"}"));
  }
  EXPECT_EQ(MetricValue(page, "canopy_requests_in_flight{method=\"Score\"}"), 0);
  // A call may end before the server sees it.
  EXPECT_LE(finished, static_cast<double>(sent.load()));
  EXPECT_GE(value("canopy_requests_total{code=\"OK\",method=\"Score\"}"),
            static_cast<double>(answered.load()));
  EXPECT_GT(answered.load(), 0);
  EXPECT_GT(value("canopy_refused_requests_total{reason=\"queued_requests\"}") +
                value("canopy_ended_requests_total{outcome=\"displaced\"}"),
            0);
}

}  // namespace
}  // namespace canopy::testing
