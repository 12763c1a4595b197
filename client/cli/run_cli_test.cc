// Runs the whole program against an in-process server: arguments, streams and exit codes.
#include "client/cli/run_cli.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/testing/fake_scorer.h"
#include "client/testing/samples.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kInput[] = R"({"id": "q", "prefix": [1], "candidates": [{"id": "a", "tokens": [2]}]}
)";

class RunCliTest : public ::testing::Test {
 protected:
  struct Result {
    ExitCode code;
    std::string out;
    std::string err;
  };

  RunCliTest() {
    server_.score = [this](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                           v1::ScoreResponse* response) {
      received_ = request;
      response->set_request_id(request.request_id());
      response->set_model(request.model());
      response->set_model_version(request.min_model_version());
      for (const v1::Question& question : request.questions()) {
        v1::QuestionResult* result = response->add_results();
        result->set_id(question.id());
        v1::CandidateResult* candidate = result->add_candidates();
        candidate->set_id("a");
        candidate->set_tokens(2);
        candidate->set_score(0.5);
      }
      return grpc::Status::OK;
    };
    server_.explain = [](grpc::ServerContext* /*context*/, const v1::ExplainRequest& request,
                         v1::ExplainResponse* response) {
      v1::QuestionTree* tree = response->add_questions();
      tree->set_id("q");
      v1::TreeNode* node = tree->add_nodes();
      node->set_parent(-1);
      node->add_tokens(1);
      node->add_tokens(2);
      node->add_candidates(0);
      response->set_svg(request.svg() ? "<svg/>" : "");
      return grpc::Status::OK;
    };
    server_.list_models = [](grpc::ServerContext* /*context*/,
                             const v1::ListModelsRequest& /*request*/,
                             v1::ListModelsResponse* response) {
      *response->add_models() = SampleModel();
      return grpc::Status::OK;
    };
    server_.get_model = [](grpc::ServerContext* /*context*/, const v1::GetModelRequest& request,
                           v1::Model* model) {
      *model = SampleModel();
      return request.name() == "demo" ? grpc::Status::OK
                                      : grpc::Status(grpc::StatusCode::NOT_FOUND, "no model");
    };
  }

  // Runs with --server before `arguments`.
  Result Run(std::vector<std::string> arguments, const std::string& input = kInput,
             bool out_is_terminal = false) {
    arguments.insert(arguments.begin(), "--server=" + server_.target());
    return RunAlone(arguments, input, out_is_terminal);
  }

  static Result RunAlone(const std::vector<std::string>& arguments, const std::string& input = "",
                         bool out_is_terminal = false) {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    const ExitCode code = RunCli(arguments, {in, out, err, out_is_terminal});
    return {code, out.str(), err.str()};
  }

  v1::ScoreRequest received_;
  FakeScorer server_;
};

TEST_F(RunCliTest, ScoresStdin) {
  const Result result = Run({"score"});
  EXPECT_EQ(result.code, kOk);
  EXPECT_THAT(result.out, HasSubstr("*     1  a"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(RunCliTest, LoadsWeights) {
  v1::LoadWeightsRequest received;
  server_.load_weights = [&received](grpc::ServerContext* /*context*/,
                                     const v1::LoadWeightsRequest& request, v1::Model* model) {
    received = request;
    *model = SampleModel();
    return request.source() == "bad" ? grpc::Status(grpc::StatusCode::DATA_LOSS, "bad checkpoint")
                                     : grpc::Status::OK;
  };
  const std::string admin = "--admin=" + server_.target();
  const Result good = RunAlone({"load_weights", admin, "--model=demo", "--source=step-2",
                                "--expected_fingerprint=" + SampleModel().fingerprint()});
  EXPECT_EQ(good.code, kOk) << good.err;
  EXPECT_THAT(good.out, HasSubstr(SampleModel().fingerprint()));
  EXPECT_EQ(received.model(), "demo");
  EXPECT_EQ(received.source(), "step-2");
  EXPECT_EQ(received.expected_fingerprint(), SampleModel().fingerprint());
  const Result json = RunAlone({"load_weights", admin, "--source=step-2", "--format=json"});
  EXPECT_THAT(json.out, StartsWith(R"({"models":[{"name":"demo")"));
  const Result bad = RunAlone({"load_weights", admin, "--source=bad"});
  EXPECT_EQ(bad.code, kRefused);
  EXPECT_EQ(bad.err, "canopy: DATA_LOSS: bad checkpoint\n");
  EXPECT_EQ(RunAlone({"load_weights", admin}).code, kUsage);
  EXPECT_EQ(RunAlone({"load_weights", "--server=x:1", "--source=a"}).code, kUsage);
  const Result nobody =
      RunAlone({"load_weights", "--admin=127.0.0.1:1", "--source=a", "--deadline=1s"});
  EXPECT_EQ(nobody.code, kUnreachable);
}

TEST_F(RunCliTest, AllLinesMakeOneRequest) {
  const Result result = Run({"score", "--format=json"}, std::string(kInput) + "\n" + kInput);
  EXPECT_EQ(result.code, kOk);
  EXPECT_EQ(received_.questions_size(), 2);
  EXPECT_EQ(server_.num_calls(), 1);
  EXPECT_THAT(result.out, StartsWith(R"({"request_id":"","model":"")"));
  EXPECT_EQ(result.out.find('\n'), result.out.size() - 1);
}

TEST_F(RunCliTest, EveryFlagReachesTheRequest) {
  const Result result =
      Run({"score", "--request_id=r", "--model=m", "--min_model_version=7", "--vocabulary_hash=h",
           "--backend=dense", "--policy", "measured", "--packing=padded", "--max_mask_bytes=0",
           "--priority=low", "--scores", "--vector_dtype=float16", "--normalize", "--scope=path",
           "--temperature=0.5", "--novalues"});
  ASSERT_EQ(result.code, kOk) << result.err;
  EXPECT_EQ(received_.request_id(), "r");
  EXPECT_EQ(received_.model(), "m");
  EXPECT_EQ(received_.min_model_version(), 7);
  EXPECT_EQ(received_.vocabulary_hash(), "h");
  EXPECT_EQ(received_.priority(), v1::PRIORITY_LOW);
  EXPECT_EQ(received_.routing().backend(), v1::BACKEND_DENSE);
  EXPECT_EQ(received_.routing().policy(), v1::POLICY_MEASURED);
  EXPECT_EQ(received_.routing().packing(), v1::PACKING_PADDED);
  EXPECT_TRUE(received_.routing().has_max_mask_bytes());
  EXPECT_EQ(received_.routing().max_mask_bytes(), 0);
  EXPECT_TRUE(received_.outputs().scores());
  EXPECT_FALSE(received_.outputs().values());
  EXPECT_TRUE(received_.outputs().normalize());
  EXPECT_EQ(received_.outputs().vector_dtype(), v1::DTYPE_FLOAT16);
  EXPECT_EQ(received_.outputs().scope(), v1::SCOPE_PATH);
  EXPECT_EQ(received_.outputs().temperature(), 0.5F);
}

TEST_F(RunCliTest, OutputFlagsReachTheRequest) {
  // The fake server returns none of these outputs, so the answer is refused. The test checks the
  // request.
  Run({"score", "--vectors", "--probabilities", "--token_logprobs", "--entropy", "--vocab_range",
       "--values=true", "--top_logprobs=5"});
  EXPECT_TRUE(received_.outputs().vectors());
  EXPECT_TRUE(received_.outputs().probabilities());
  EXPECT_TRUE(received_.outputs().token_logprobs());
  EXPECT_TRUE(received_.outputs().entropy());
  EXPECT_TRUE(received_.outputs().vocab_range());
  EXPECT_TRUE(received_.outputs().values());
  EXPECT_EQ(received_.outputs().top_logprobs(), 5);
  EXPECT_FALSE(received_.outputs().scores());
}

TEST_F(RunCliTest, ExplainPlansTheOutputsAskedFor) {
  v1::ScoreRequest planned;
  const auto explain = server_.explain;
  server_.explain = [&](grpc::ServerContext* context, const v1::ExplainRequest& request,
                        v1::ExplainResponse* response) {
    planned = request.request();
    return explain(context, request, response);
  };
  EXPECT_EQ(Run({"explain", "--token_logprobs", "--scope=path"}).code, kOk);
  EXPECT_TRUE(planned.outputs().token_logprobs());
  EXPECT_EQ(planned.outputs().scope(), v1::SCOPE_PATH);
}

TEST_F(RunCliTest, FlagsDoNotOutliveARun) {
  Run({"score", "--model=m", "--temperature=0.5", "--scores"});
  Run({"score"});
  EXPECT_EQ(received_.model(), "");
  EXPECT_FALSE(received_.outputs().has_temperature());
  EXPECT_FALSE(received_.routing().has_max_mask_bytes());
  EXPECT_FALSE(received_.outputs().scores());
}

TEST_F(RunCliTest, ReadsAFileAndWritesThePicture) {
  const std::string folder = ::testing::TempDir();
  const std::string input_file = folder + "/questions.jsonl";
  const std::string svg_file = folder + "/forest.svg";
  std::ofstream(input_file) << kInput;
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"explain", input_file, "--svg=" + svg_file},
           {"explain", "--input", input_file, "--svg", svg_file}}) {
    const Result result = Run(arguments, "");
    EXPECT_EQ(result.code, kOk) << result.err;
    EXPECT_THAT(result.out, HasSubstr("`-- 0..1  [1 2]  <- a\n"));
    std::stringstream svg;
    svg << std::ifstream(svg_file).rdbuf();
    EXPECT_EQ(svg.str(), "<svg/>");
    std::remove(svg_file.c_str());
  }
}

TEST_F(RunCliTest, ShowsModels) {
  EXPECT_THAT(Run({"model"}).out, HasSubstr("architecture         Qwen3ForCausalLM\n"));
  EXPECT_THAT(Run({"model", "--model=demo", "--format=json"}).out,
              StartsWith(R"({"models":[{"name":"demo",)"));
  const Result unknown = Run({"model", "--model=x"});
  EXPECT_EQ(unknown.code, kRefused);
  EXPECT_EQ(unknown.err, "canopy: NOT_FOUND: no model\n");
}

TEST_F(RunCliTest, HealthIsOkOnlyWhenServing) {
  server_.SetServing("canopy.v1.Scorer", true);
  Result result = Run({"health"});
  EXPECT_EQ(result.code, kOk);
  EXPECT_EQ(result.out, "live   SERVING\nready  SERVING\n");
  server_.SetServing("canopy.v1.Scorer", false);
  result = Run({"health", "--format=json"});
  EXPECT_EQ(result.code, kRefused);
  EXPECT_EQ(result.out, "{\"live\":\"SERVING\",\"ready\":\"NOT_SERVING\"}\n");
}

TEST_F(RunCliTest, ColoursOnlyOnATerminal) {
  EXPECT_THAT(Run({"score"}).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(Run({"score"}, kInput, true).out, HasSubstr("\x1b[1;32m"));
  EXPECT_THAT(Run({"score", "--color=never"}, kInput, true).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(Run({"score", "--color=always"}).out, HasSubstr("\x1b[1;32m"));
}

TEST_F(RunCliTest, ServersRefusalIsShownWithItsViolations) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) {
    google::rpc::BadRequest bad_request;
    for (const char* field : {"questions[0]", "questions[1].\x1b[2J"}) {
      auto* violation = bad_request.add_field_violations();
      violation->set_field(field);
      violation->set_description("wrong");
    }
    google::rpc::RetryInfo retry_info;
    retry_info.mutable_retry_delay()->set_seconds(2);
    google::rpc::Status details;
    details.set_message("2 problems");
    details.add_details()->PackFrom(bad_request);
    details.add_details()->PackFrom(retry_info);
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "2 problems",
                        details.SerializeAsString());
  };
  const Result result = Run({"score"});
  EXPECT_EQ(result.code, kRefused);
  EXPECT_EQ(result.err,
            "canopy: INVALID_ARGUMENT: 2 problems\n  questions[0]: wrong\n"
            "  questions[1].\\x1b[2J: wrong\n  retry after 2s\n");
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(RunCliTest, ViolationsInTheServersTextAreShownOnce) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) {
    google::rpc::BadRequest bad_request;
    for (const char* field : {"a", "b"}) {
      auto* violation = bad_request.add_field_violations();
      violation->set_field(field);
      violation->set_description("wrong");
    }
    google::rpc::Status details;
    details.set_message("a: wrong; b: wrong");
    details.add_details()->PackFrom(bad_request);
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, details.message(),
                        details.SerializeAsString());
  };
  EXPECT_EQ(Run({"score"}).err,
            "canopy: INVALID_ARGUMENT: 2 field violations\n  a: wrong\n  b: wrong\n");
}

TEST_F(RunCliTest, WrongAnswersAreRefused) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) { return grpc::Status::OK; };
  const Result result = Run({"score"});
  EXPECT_EQ(result.code, kRefused);
  EXPECT_EQ(result.err,
            "canopy: DATA_LOSS: wrong answer from the server: results: 0 instead of 1\n");
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(RunCliTest, LargeRequestsAreRefusedUnsent) {
  const Result result = Run({"score", "--max_request_bytes=10"});
  EXPECT_EQ(result.code, kRefused);
  EXPECT_THAT(result.err, HasSubstr("max_request_bytes 10; not sent"));
  EXPECT_EQ(server_.num_calls(), 0);
}

TEST(RunCliUnreachableTest, NoServerIsExitCode3) {
  std::string target;
  {
    const FakeScorer gone;
    target = gone.target();
  }
  for (const char* command : {"model", "health"}) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(RunCli({command, "--server=" + target}, {in, out, err}), kUnreachable);
    EXPECT_THAT(err.str(), StartsWith("canopy: UNAVAILABLE: "));
    EXPECT_THAT(err.str(), EndsWith("\n  is canopy_server running at " + target + "?\n"));
    EXPECT_THAT(out.str(), IsEmpty());
  }
}

// A port that accepts connections and never sends anything.
class SilentPort {
 public:
  SilentPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, generic, size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, generic, &size), 0);
    target_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  const std::string& target() const { return target_; }
  // Returns the next connection; -1 after Stop.
  int Accept() const { return accept(socket_, nullptr, nullptr); }
  void Stop() const { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
  std::string target_;
};

// Returns the output of `canopy health` for a port that answers every connection with `answer`.
std::string ErrorAt(const std::string& answer, std::string* target) {
  const SilentPort port;
  *target = port.target();
  std::thread server([&port, &answer] {
    for (int fd = port.Accept(); fd >= 0; fd = port.Accept()) {
      EXPECT_EQ(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(answer.size()));
      char rest[1024];
      while (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
      }
      close(fd);
    }
  });
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunCli({"health", "--deadline=10s", "--server=" + port.target()}, {in, out, err}),
            kUnreachable);
  port.Stop();
  server.join();
  return err.str();
}

TEST(RunCliUnreachableTest, AMetricsPortIsExplained) {
  std::string target;
  const std::string error = ErrorAt(
      "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", &target);
  EXPECT_THAT(error,
              EndsWith("\n  what listens at " + target +
                       " speaks HTTP/1, as a server's --metrics_listen does: give the address "
                       "of its --listen\n"));
}

TEST_F(RunCliTest, AServerWithoutTheCallIsExplained) {
  // The status is that of gRPC for a method that no service has.
  server_.load_weights = [](grpc::ServerContext* /*context*/,
                            const v1::LoadWeightsRequest& /*request*/, v1::Model* /*model*/) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  };
  const Result result = RunAlone({"load_weights", "--source=x", "--admin=" + server_.target()});
  EXPECT_EQ(result.code, kRefused);
  EXPECT_THAT(result.err, HasSubstr("what listens at " + server_.target() +
                                    " does not have this call: a Canopy server scores at its "
                                    "--listen, loads weights at its --admin_listen"));
}

TEST_F(RunCliTest, ATerminalIsNotWaitedForUnlessItIsNamed) {
  std::istringstream in(kInput);
  std::ostringstream out;
  std::ostringstream err;
  const std::string server = "--server=" + server_.target();
  Streams streams{in, out, err};
  streams.in_is_terminal = true;
  EXPECT_EQ(RunCli({"score", server}, streams), kUsage);
  EXPECT_THAT(err.str(), HasSubstr("stdin is a terminal: name a FILE of JSON lines"));
  EXPECT_EQ(RunCli({"score", server, "-"}, streams), kOk);
}

TEST(RunCliUnreachableTest, DeadlineBeforeAnyConnectionIsExitCode3) {
  const SilentPort port;
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunCli({"model", "--deadline=100ms", "--server=" + port.target()}, {in, out, err}),
            kUnreachable);
  EXPECT_THAT(err.str(), StartsWith("canopy: DEADLINE_EXCEEDED: "));
}

TEST_F(RunCliTest, ARefusalShowsThatTheServerRuns) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  };
  const Result result = Run({"score"});
  EXPECT_EQ(result.code, kUnreachable);
  EXPECT_EQ(result.err, "canopy: UNAVAILABLE: draining\n");
}

TEST_F(RunCliTest, DeadlineOfASlowServerIsExitCode1) {
  server_.score = [](grpc::ServerContext* context, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) {
    // The handler ends with the call, so the server learns of the client's deadline.
    while (!context->IsCancelled()) {
      std::this_thread::yield();
    }
    return grpc::Status::OK;
  };
  const Result result = Run({"score", "--deadline=300ms"});
  EXPECT_EQ(result.code, kRefused);
  EXPECT_THAT(result.err, StartsWith("canopy: DEADLINE_EXCEEDED: "));
}

struct UsageCase {
  std::vector<std::string> arguments;
  std::string problem;
  std::string input = kInput;
};

class UsageTest : public ::testing::TestWithParam<UsageCase> {};

TEST_P(UsageTest, IsExitCode2WithOneClearLine) {
  std::istringstream in(GetParam().input);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunCli(GetParam().arguments, {in, out, err}), kUsage);
  EXPECT_THAT(err.str(), AllOf(StartsWith("canopy: "), HasSubstr(GetParam().problem)));
  EXPECT_THAT(out.str(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, UsageTest,
    ::testing::Values(
        UsageCase{{}, "a command is needed"}, UsageCase{{"--scores"}, "a command is needed"},
        UsageCase{{"guess"}, "unknown command 'guess'"},
        UsageCase{{"scroe"}, "unknown command 'scroe'; did you mean score?"},
        UsageCase{{"load-weights"}, "did you mean load_weights?"},
        UsageCase{{"score", "--guess"}, "unknown flag --guess"},
        UsageCase{{"score", "--guess=1"}, "unknown flag --guess"},
        UsageCase{{"score", "--v=1"}, "unknown flag --v"},
        UsageCase{{"score", "--scores=perhaps"}, "--scores: 'perhaps'"},
        UsageCase{{"score", "--deadline=soon"}, "--deadline: 'soon'"},
        UsageCase{{"score", "--deadline=0s"}, "deadline 0 must be positive"},
        UsageCase{{"score", "--deadline=inf"}, "deadline inf must be positive"},
        UsageCase{{"score", "--model"}, "--model needs a value"},
        UsageCase{{"score", "--backend=fast"},
                  "--backend: 'fast' is not one of auto|dense|segmented|path|fused"},
        UsageCase{{"score", "--temperature=warm"}, "--temperature: 'warm'"},
        UsageCase{{"score", "--max_mask_bytes=1.5"}, "--max_mask_bytes: '1.5'"},
        UsageCase{{"score", "--format=xml"}, "--format: 'xml' is not one of table|json"},
        UsageCase{{"score", "--color=red"}, "--color: 'red' is not one of"},
        UsageCase{{"score", "--svg=x"}, "--svg is not a flag of `score`"},
        UsageCase{{"explain", "--priority=low"}, "--priority is not a flag of `explain`"},
        UsageCase{{"score", "--server=127.0.0.1"},
                  "target '127.0.0.1' has no port from 1 to 65535: give HOST:PORT"},
        UsageCase{{"score", "--server=dns:///canopy"}, "has no port"},
        UsageCase{{"score", "--server=[::1]"}, "has no port"},
        UsageCase{{"score", "--server=::1"}, "has no port"},
        UsageCase{{"score", "--server=host:0"}, "has the port '0', which is not a number from 1"},
        UsageCase{{"score", "--server=host:65536"}, "has the port '65536', which is not a number"},
        UsageCase{{"score", "--server=host:grpc"}, "has the port 'grpc', which is not a number"},
        UsageCase{{"score", "--server=:50051"}, "target ':50051' has no host: give HOST:PORT"},
        UsageCase{{"score", "--server="}, "target is empty: give HOST:PORT"},
        UsageCase{{"score", "--server= h:1"}, "target ' h:1' has a space in it"},
        UsageCase{{"score", "--server=http://h:1/x"},
                  "target 'http://h:1/x' is a URL: give h:1, without http://"},
        UsageCase{{"score", "--server=https://h:1"}, "is a URL: give h:1, without https://"},
        UsageCase{{"score", "--server=grpc://h:1"}, "is a URL: give h:1, without grpc://"},
        UsageCase{{"score", "--server=ipv4:10.0.0.1:1,10.0.0.2"}, "has no port from 1 to 65535"},
        UsageCase{{"score", "--deadline=5"},
                  "--deadline: '5' is not a time with its unit, as 500ms, 5s or 2m"},
        UsageCase{{"score", "--scores=maybe"}, "--scores: 'maybe' is not true or false"},
        UsageCase{{"score", "--temperature=hot"}, "--temperature: 'hot' is not a number"},
        UsageCase{{"score", "--top-logprobs=3"},
                  "unknown flag --top-logprobs; did you mean --top_logprobs?"},
        UsageCase{{"score", "--Temperature=1"}, "did you mean --temperature?"},
        UsageCase{{"score", "--sever=h:1"}, "unknown flag --sever; did you mean --server?"},
        UsageCase{{"score", "--inputs=x"}, "unknown flag --inputs; did you mean --input?"},
        UsageCase{{"score", "/"}, "cannot read '/': it is a folder; name a file in it"},
        UsageCase{{"model", "--backend=dense"}, "--backend is not a flag of `model`"},
        UsageCase{{"health", "--model=m"}, "--model is not a flag of `health`"},
        UsageCase{{"health", "file"}, "unexpected argument 'file'"},
        UsageCase{{"score", "a", "b"}, "unexpected argument 'b'"},
        UsageCase{{"score", "a", "--input=b"}, "--input and a file are both given"},
        UsageCase{{"score", "/nonexistent/x"},
                  "cannot read '/nonexistent/x': No such file or directory"},
        UsageCase{{"score", "--", "--x\x1b"}, "cannot read '--x\\x1b'"},
        UsageCase{{"score"}, "stdin: no questions", "\n"},
        UsageCase{{"score"}, "stdin: line 1: column 1: not JSON", "x"}));

TEST(HelpTest, NamesCommandsFlagsAndExitCodes) {
  for (const auto& [arguments, text] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--help"}, "explain       show how"},
           {{"-h"}, "Exit codes: 0 ok"},
           {{"score", "--help"}, "--token_logprobs=false"},
           {{"--help", "explain"}, "--svg="},
           {{"health", "-h"}, "--deadline=1m"}}) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(RunCli(arguments, {in, out, err}), kOk);
    EXPECT_THAT(out.str(), HasSubstr(text));
    EXPECT_THAT(err.str(), IsEmpty());
  }
}

}  // namespace
}  // namespace canopy::client
