// Tests the client against an in-process server: retries, deadlines, sizes, details and wrong
// answers.
#include "client/client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/error_details.h"
#include "client/testing/fake_scorer.h"
#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

TEST(ClientOptionsTest, TargetsHaveAPortOrAnotherScheme) {
  for (const char* target :
       {"h:1", "127.0.0.1:65535", "[::1]:50051", "dns:h:1", "dns:///h:1", "dns://8.8.8.8/h:1",
        "unix:path", "unix:///run/canopy", "unix-abstract:x", "ipv4:10.0.0.1:1,10.0.0.2:1",
        "ipv6:[::1]:1", "xds:///service"}) {
    ClientOptions options;
    options.target = target;
    EXPECT_TRUE(options.Validate().ok()) << target;
  }
  for (const char* target : {"h", "h:", "h:http", "h:0", "h:65536", ":", "::1", "[::1]", "dns:h",
                             "dns://", "dns:///h"}) {
    ClientOptions options;
    options.target = target;
    EXPECT_TRUE(absl::IsInvalidArgument(options.Validate())) << target;
  }
}

using ::testing::HasSubstr;

// Returns SampleRequest with its first prefix, 5 6, as the bytes of an int64 array.
v1::ScoreRequest SampleRequestOfInt64() {
  v1::ScoreRequest request = SampleRequest();
  v1::TokenIds* prefix = request.mutable_questions(0)->mutable_prefix();
  prefix->Clear();
  prefix->set_raw64(std::string("\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0", 16));
  return request;
}

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    options_.target = server_.target();
    options_.initial_backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(2);
    server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                       v1::ScoreResponse* response) {
      *response = SampleResponse();
      return grpc::Status::OK;
    };
  }

  // Refuses the first `count` calls, then answers.
  void RefuseFirst(int count, grpc::StatusCode code, const std::string& pushback_ms = "") {
    server_.score = [this, count, code, pushback_ms](grpc::ServerContext* context,
                                                     const v1::ScoreRequest& /*request*/,
                                                     v1::ScoreResponse* response) {
      if (server_.num_calls() > count) {
        *response = SampleResponse();
        return grpc::Status::OK;
      }
      if (!pushback_ms.empty()) {
        context->AddTrailingMetadata("grpc-retry-pushback-ms", pushback_ms);
      }
      return grpc::Status(code, "refused");
    };
  }

  std::unique_ptr<Client> NewClient() {
    HandOver(&server_);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(options_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  absl::StatusOr<v1::ScoreResponse> Score() { return NewClient()->Score(SampleRequest()); }

  // Must outlive the server, whose handlers wait for it.
  Notification test_is_over_;
  FakeScorer server_;
  Client::Options options_;
};

TEST_F(ClientTest, SendsTheTraceOfTheCallerOrNothing) {
  constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  std::string sent;
  const auto keep = [&sent](const grpc::ServerContext& context) {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find("traceparent");
    sent =
        found == metadata.end() ? "none" : std::string(found->second.data(), found->second.size());
  };
  server_.score = [&keep](grpc::ServerContext* context, const v1::ScoreRequest& /*request*/,
                          v1::ScoreResponse* response) {
    keep(*context);
    *response = SampleResponse();
    return grpc::Status::OK;
  };
  server_.explain = [&keep](grpc::ServerContext* context, const v1::ExplainRequest& /*request*/,
                            v1::ExplainResponse* response) {
    keep(*context);
    *response = SampleExplanation();
    return grpc::Status::OK;
  };
  const auto client = NewClient();
  EXPECT_TRUE(client->Score(SampleRequest(), {kTraceparent}).ok());
  EXPECT_EQ(sent, kTraceparent);
  EXPECT_TRUE(client->Score(SampleRequest()).ok());
  EXPECT_EQ(sent, "none");
  v1::ExplainRequest explain;
  *explain.mutable_request() = SampleRequest();
  EXPECT_TRUE(client->Explain(explain, {kTraceparent}).ok());
  EXPECT_EQ(sent, kTraceparent);

  const int calls = server_.num_calls();
  const std::string good = kTraceparent;
  for (const std::string& bad :
       {std::string("00-\n"), good.substr(1), good + "0", good.substr(1) + "\n",
        good.substr(1) + "F", good.substr(1) + "g", good.substr(1) + "/", good.substr(1) + ":",
        good.substr(1) + "`"}) {
    const absl::Status status = client->Score(SampleRequest(), {bad}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("traceparent"));
  }
  EXPECT_EQ(server_.num_calls(), calls) << "nothing is sent";
}

TEST_F(ClientTest, ReturnsTheServersAnswer) {
  const absl::StatusOr<v1::ScoreResponse> response = Score();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->SerializeAsString(), SampleResponse().SerializeAsString());
}

TEST_F(ClientTest, RetriesUnavailableUntilItIsAnswered) {
  RefuseFirst(2, grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Score().ok());
  EXPECT_EQ(server_.num_calls(), 3);
}

TEST_F(ClientTest, RetriesResourceExhausted) {
  RefuseFirst(1, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Score().ok());
  EXPECT_EQ(server_.num_calls(), 2);
}

TEST_F(ClientTest, GivesUpAfterMaxAttempts) {
  RefuseFirst(100, grpc::StatusCode::UNAVAILABLE);
  options_.max_attempts = 3;
  EXPECT_EQ(Score().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.num_calls(), 3);
}

TEST_F(ClientTest, OneAttemptMeansNoRetry) {
  RefuseFirst(1, grpc::StatusCode::UNAVAILABLE);
  options_.max_attempts = 1;
  EXPECT_EQ(Score().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.num_calls(), 1);
}

TEST_F(ClientTest, DoesNotRetryWhatCannotSucceed) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::FAILED_PRECONDITION,
        grpc::StatusCode::INTERNAL, grpc::StatusCode::NOT_FOUND}) {
    const int calls_before = server_.num_calls();
    RefuseFirst(1000, code);
    EXPECT_EQ(static_cast<int>(Score().status().code()), static_cast<int>(code));
    EXPECT_EQ(server_.num_calls(), calls_before + 1);
  }
}

TEST_F(ClientTest, ServersPushbackReplacesTheBackoff) {
  RefuseFirst(1, grpc::StatusCode::RESOURCE_EXHAUSTED, "1");
  options_.initial_backoff = absl::Hours(1);
  options_.max_backoff = absl::Hours(1);
  EXPECT_TRUE(Score().ok());
}

TEST_F(ClientTest, NegativePushbackEndsRetries) {
  RefuseFirst(1, grpc::StatusCode::RESOURCE_EXHAUSTED, "-1");
  EXPECT_EQ(Score().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server_.num_calls(), 1);
}

TEST_F(ClientTest, RetriesARequestBeyondGrpcsDefaultRetryBuffer) {
  RefuseFirst(1, grpc::StatusCode::UNAVAILABLE);
  v1::ScoreRequest request = SampleRequest();
  request.mutable_questions(0)->mutable_candidates(0)->mutable_tokens()->clear_ids();
  request.mutable_questions(0)->mutable_candidates(0)->mutable_tokens()->set_raw(
      std::string(8 << 20, '\0'));
  options_.max_request_bytes = static_cast<int64_t>(request.ByteSizeLong());
  const absl::StatusOr<v1::ScoreResponse> response = NewClient()->Score(request);
  EXPECT_EQ(server_.num_calls(), 2);
  // The sample answers another request. The test only checks that it arrives.
  EXPECT_EQ(response.status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ClientTest, DeadlineEndsACallThatIsNotAnswered) {
  server_.score = [this](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                         v1::ScoreResponse* /*response*/) {
    test_is_over_.WaitForNotification();
    return grpc::Status::OK;
  };
  options_.deadline = absl::Milliseconds(100);
  const std::unique_ptr<Client> client = NewClient();
  EXPECT_EQ(client->Score(SampleRequest()).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(client->Connected());
  test_is_over_.Notify();
}

TEST_F(ClientTest, RefusesALargerRequestBeforeSending) {
  const auto size_bytes = static_cast<int64_t>(SampleRequest().ByteSizeLong());
  options_.max_request_bytes = size_bytes;
  EXPECT_TRUE(Score().ok());
  options_.max_request_bytes = size_bytes - 1;
  const absl::Status status = Score().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(size_bytes)));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(size_bytes - 1)));
  EXPECT_EQ(server_.num_calls(), 1);
}

TEST_F(ClientTest, AcceptsAnswersBeyondGrpcsDefaultMessageLimit) {
  server_.explain = [](grpc::ServerContext* /*context*/, const v1::ExplainRequest& /*request*/,
                       v1::ExplainResponse* response) {
    *response = SampleExplanation();
    response->set_svg(std::string(16 << 20, ' '));
    return grpc::Status::OK;
  };
  v1::ExplainRequest request;
  *request.mutable_request() = SampleRequest();
  request.set_svg(true);
  const absl::StatusOr<v1::ExplainResponse> response = NewClient()->Explain(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->svg().size(), size_t{16} << 20);
}

TEST_F(ClientTest, KeepsLongErrorDetails) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) {
    google::rpc::BadRequest bad_request;
    for (int i = 0; i < 16; ++i) {
      auto* violation = bad_request.add_field_violations();
      violation->set_field("questions[" + std::to_string(i) + "]");
      violation->set_description(std::string(1000, 'x'));
    }
    google::rpc::Status details;
    details.add_details()->PackFrom(bad_request);
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "bad", details.SerializeAsString());
  };
  const absl::Status status = Score().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetails(status).violations.size(), 16);
}

TEST_F(ClientTest, UnreachableServerIsUnavailable) {
  std::string target;
  {
    const FakeScorer gone;
    target = gone.target();
  }
  options_.target = target;
  options_.max_attempts = 2;
  const std::unique_ptr<Client> client = NewClient();
  EXPECT_EQ(client->Score(SampleRequest()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(client->Connected());
}

// The server is very busy: gRPC's attempt to connect must not end before the call does.
TEST_F(ClientTest, WaitsForAServerThatIsSlowToConnect) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);  // the kernel accepts, but nothing is ever sent
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  options_.target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  options_.max_attempts = 1;
  options_.deadline = absl::Milliseconds(500);
  EXPECT_EQ(Score().status().code(), absl::StatusCode::kDeadlineExceeded);
  close(listener);
}

TEST_F(ClientTest, WrongAnswersAreDataLoss) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* response) {
    *response = SampleResponse();
    response->mutable_results()->RemoveLast();
    return grpc::Status::OK;
  };
  server_.explain = [](grpc::ServerContext* /*context*/, const v1::ExplainRequest& /*request*/,
                       v1::ExplainResponse* /*response*/) { return grpc::Status::OK; };
  server_.get_model = [](grpc::ServerContext* /*context*/, const v1::GetModelRequest& /*request*/,
                         v1::Model* model) {
    *model = SampleModel();
    return grpc::Status::OK;
  };
  const std::unique_ptr<Client> client = NewClient();
  EXPECT_EQ(client->Score(SampleRequest()).status().code(), absl::StatusCode::kDataLoss);
  v1::ExplainRequest explain;
  *explain.mutable_request() = SampleRequest();
  EXPECT_EQ(client->Explain(explain).status().code(), absl::StatusCode::kDataLoss);
  v1::GetModelRequest get_model;
  get_model.set_name("other");
  EXPECT_EQ(client->GetModel(get_model).status().code(), absl::StatusCode::kDataLoss);
  get_model.set_name("demo");
  EXPECT_TRUE(client->GetModel(get_model).ok());
}

TEST_F(ClientTest, LoadsWeightsAndChecksWhatServesThen) {
  v1::LoadWeightsRequest received;
  server_.load_weights = [&received](grpc::ServerContext* /*context*/,
                                     const v1::LoadWeightsRequest& request, v1::Model* model) {
    received = request;
    *model = SampleModel();
    return grpc::Status::OK;
  };
  v1::LoadWeightsRequest request;
  request.set_model("demo");
  request.set_source("step-2");
  const std::unique_ptr<Client> client = NewClient();
  const absl::StatusOr<v1::Model> model = client->LoadWeights(request);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->fingerprint(), SampleModel().fingerprint());
  EXPECT_EQ(received.source(), "step-2");
  request.set_expected_fingerprint("another");
  EXPECT_EQ(client->LoadWeights(request).status().code(), absl::StatusCode::kDataLoss);
  request.set_expected_fingerprint(SampleModel().fingerprint());
  EXPECT_TRUE(client->LoadWeights(request).ok());
  request.set_model("other");
  EXPECT_EQ(client->LoadWeights(request).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ClientTest, ListsModels) {
  server_.list_models = [](grpc::ServerContext* /*context*/,
                           const v1::ListModelsRequest& /*request*/,
                           v1::ListModelsResponse* response) {
    *response->add_models() = SampleModel();
    return grpc::Status::OK;
  };
  const absl::StatusOr<v1::ListModelsResponse> response = NewClient()->ListModels();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->models(0).name(), "demo");
}

TEST_F(ClientTest, ReadsHealthFromGrpcsOwnService) {
  const std::unique_ptr<Client> client = NewClient();
  server_.SetServing("canopy.v1.Scorer", false);
  EXPECT_EQ(*client->Check(""), Health::kServing);
  EXPECT_EQ(*client->Check("canopy.v1.Scorer"), Health::kNotServing);
  server_.SetServing("canopy.v1.Scorer", true);
  EXPECT_EQ(*client->Check("canopy.v1.Scorer"), Health::kServing);
  EXPECT_EQ(client->Check("unknown").status().code(), absl::StatusCode::kNotFound);
}

// The clocks of std::chrono end after 292 years.
const absl::Duration kLongDeadlines[] = {absl::Hours(1'752'000), absl::Hours(2'562'047),
                                         absl::Hours(2'562'048), absl::Hours(99'999'999),
                                         absl::Seconds(std::numeric_limits<int64_t>::max())};

TEST_F(ClientTest, ADeadlineBeyondTheClockIsNone) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                     v1::ScoreResponse* response) {
    *response = SampleResponse();
    response->set_request_id(request.request_id());
    return grpc::Status::OK;
  };
  for (const absl::Duration deadline : kLongDeadlines) {
    SCOPED_TRACE(absl::FormatDuration(deadline));
    options_.deadline = deadline;
    const absl::StatusOr<v1::ScoreResponse> response = Score();
    EXPECT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(*NewClient()->Check(""), Health::kServing);
    const auto stream = NewClient()->OpenStream({4});
    ASSERT_TRUE(stream.ok()) << stream.status();
    v1::ScoreRequest request = SampleRequest();
    request.set_request_id("r");
    const auto answer = (*stream)->Send(std::move(request)).get();
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE((*stream)->Finish().ok());
  }
}

TEST_F(ClientTest, BackoffsFromTheShortestToTheLongestRetry) {
  for (const absl::Duration backoff : {absl::Nanoseconds(1), absl::Microseconds(500)}) {
    for (const absl::Duration most : {absl::Milliseconds(1), absl::Hours(99'999'999),
                                      absl::Seconds(std::numeric_limits<int64_t>::max())}) {
      SCOPED_TRACE(absl::StrCat(absl::FormatDuration(backoff), " to ", absl::FormatDuration(most)));
      options_.initial_backoff = backoff;
      options_.max_backoff = most;
      RefuseFirst(server_.num_calls() + 1, grpc::StatusCode::UNAVAILABLE);
      const absl::StatusOr<v1::ScoreResponse> response = Score();
      EXPECT_TRUE(response.ok()) << response.status();
    }
  }
}

TEST(ClientOptionsTest, NamesTheWrongOption) {
  struct Case {
    std::string option;
    void (*corrupt)(Client::Options*);
  };
  for (const Case& each : {
           Case{"target", [](Client::Options* o) { o->target.clear(); }},
           Case{"deadline", [](Client::Options* o) { o->deadline = absl::ZeroDuration(); }},
           Case{"deadline", [](Client::Options* o) { o->deadline = absl::InfiniteDuration(); }},
           Case{"max_request_bytes", [](Client::Options* o) { o->max_request_bytes = 0; }},
           Case{"max_request_bytes",
                [](Client::Options* o) { o->max_request_bytes = int64_t{1} << 31; }},
           Case{"max_attempts", [](Client::Options* o) { o->max_attempts = 0; }},
           Case{"max_attempts", [](Client::Options* o) { o->max_attempts = 6; }},
           Case{"initial_backoff",
                [](Client::Options* o) { o->initial_backoff = absl::ZeroDuration(); }},
           Case{"max_backoff", [](Client::Options* o) { o->max_backoff = absl::Milliseconds(1); }},
           Case{"max_backoff",
                [](Client::Options* o) { o->max_backoff = absl::InfiniteDuration(); }},
       }) {
    Client::Options options;
    each.corrupt(&options);
    const absl::Status status = Client::Create(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << each.option;
    EXPECT_THAT(std::string(status.message()), HasSubstr(each.option));
  }
}

// A server without raw64 would ignore the field and score other paths.
TEST_F(ClientTest, SendsInt64TokensAsInt32WhichEveryServerReads) {
  std::string sent;
  std::string sent_raw64;
  server_.score = [&](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                      v1::ScoreResponse* response) {
    sent = request.questions(0).prefix().raw();
    sent_raw64 = request.questions(0).prefix().raw64();
    *response = SampleResponse();
    return grpc::Status::OK;
  };
  server_.explain = [&](grpc::ServerContext* /*context*/, const v1::ExplainRequest& request,
                        v1::ExplainResponse* response) {
    sent = request.request().questions(0).prefix().raw();
    sent_raw64 = request.request().questions(0).prefix().raw64();
    *response = SampleExplanation();
    return grpc::Status::OK;
  };
  const auto client = *Client::Create(options_);
  const std::string narrowed("\5\0\0\0\6\0\0\0", 8);
  const auto response = client->Score(SampleRequestOfInt64());
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(sent, narrowed);
  EXPECT_EQ(sent_raw64, "");
  sent.clear();
  v1::ExplainRequest explain;
  *explain.mutable_request() = SampleRequestOfInt64();
  const auto explained = client->Explain(explain);
  EXPECT_TRUE(explained.ok()) << explained.status();
  EXPECT_EQ(sent, narrowed);
  EXPECT_EQ(sent_raw64, "");
}

TEST_F(ClientTest, RefusesInt64TokensThatInt32CannotHoldBeforeSending) {
  v1::ScoreRequest request = SampleRequest();
  v1::TokenIds* tokens = request.mutable_questions(1)->mutable_candidates(0)->mutable_tokens();
  tokens->Clear();
  tokens->set_raw64(std::string(8, '\xff'));
  const auto client = *Client::Create(options_);
  const absl::Status status = client->Score(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(),
              HasSubstr("questions[1].candidates[0].tokens: token -1 at index 0"));
  EXPECT_EQ(server_.num_calls(), 0);
}

}  // namespace
}  // namespace canopy::client
