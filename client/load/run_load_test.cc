// Runs the whole program against an in-process server: flags, files and exit codes.
#include "client/load/run_load.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/load/traffic/testing/hash_scorer.h"
#include "client/testing/fake_scorer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace canopy::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Result {
  LoadExit code;
  std::string out;
  std::string err;
};

Result RunAlone(const std::vector<std::string>& arguments, const std::string& program = "") {
  std::ostringstream out;
  std::ostringstream err;
  LoadStreams streams = {out, err};
  streams.program = program;
  const LoadExit code = RunLoad(arguments, streams);
  return {code, out.str(), err.str()};
}

class RunLoadTest : public ::testing::Test {
 protected:
  RunLoadTest() {
    server_.get_model = [](grpc::ServerContext* /*context*/, const v1::GetModelRequest& request,
                           v1::Model* model) {
      *model = HashModel();
      return request.name().empty() || request.name() == "hash"
                 ? grpc::Status::OK
                 : grpc::Status(grpc::StatusCode::NOT_FOUND, "no model");
    };
    server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                       v1::ScoreResponse* response) {
      *response = HashAnswer(request);
      return grpc::Status::OK;
    };
  }

  // Sends 30 requests without a warm-up, unless `arguments` say otherwise. `program` is the program
  // of the killed clients.
  Result Run(std::vector<std::string> arguments, const std::string& program = "") {
    const std::string defaults[] = {"--targets=" + server_.target(), "--requests=30", "--warmup=0",
                                    "--shapes=tiny", "--pool=4"};
    arguments.insert(arguments.begin(), std::begin(defaults), std::end(defaults));
    return RunAlone(arguments, program);
  }

  FakeScorer server_;
};

TEST_F(RunLoadTest, MeasuresAndReports) {
  const Result result = Run({"--clients=3", "--latency_goal=1h"});
  EXPECT_EQ(result.code, kLoadOk) << result.err;
  EXPECT_THAT(result.out, StartsWith("closed loop, 3 clients; tiny\n\n"));
  EXPECT_THAT(result.out, HasSubstr("ended     OK 30; retries 0\n"));
  EXPECT_THAT(result.out, HasSubstr("goodput   "));
  EXPECT_THAT(result.out, HasSubstr("30 calls with 120 candidates started"));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(RunLoadTest, VerifiesEveryCandidate) {
  const Result result = Run({"--verify", "--shapes=tiny,deep"});
  EXPECT_EQ(result.code, kLoadOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("candidates, each answered once, in order"));
  EXPECT_EQ(server_.num_calls(), 30 + 1 + 2 * 4);  // GetModel, and the pool on the path backend
}

TEST_F(RunLoadTest, SendsOnStreams) {
  const Result result = Run({"--verify", "--rpc=stream", "--connections=2"});
  EXPECT_EQ(result.code, kLoadOk) << result.err;
  EXPECT_THAT(result.out, StartsWith("closed loop, 8 clients on streams; tiny\n\n"));
  EXPECT_THAT(result.out, HasSubstr("ended     OK 30; retries 0\n"));
  EXPECT_EQ(server_.num_streams(), 2);
}

TEST_F(RunLoadTest, KilledClientsAreCountedAndMustNotEndByThemselves) {
  const std::string path = ::testing::TempDir() + "/victim";
  const auto write_program = [&path](const std::string& body) {
    std::ofstream(path) << "#!/bin/sh\n" << body;
    EXPECT_EQ(std::system(("chmod +x " + path).c_str()), 0);
  };
  // The program waits for input from a pipe that nobody writes to, so it never ends.
  ASSERT_EQ(std::system(("mkfifo " + path + ".never").c_str()), 0);
  write_program("exec cat " + path + ".never\n");
  const Result result = Run({"--victims=2", "--victim_life=1h"}, path);
  EXPECT_EQ(result.code, kLoadOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("victims   2 client processes killed, 0 ended by themselves"));
  // Repeats until a program has ended before it was killed.
  write_program("exit 5\n");
  Result ended{kLoadOk, "", ""};
  while (ended.code == kLoadOk) {
    ended = Run({"--victims=8", "--requests=300"}, path);
  }
  EXPECT_EQ(ended.code, kLoadWrong);
  EXPECT_THAT(ended.err, HasSubstr("ended by themselves, the last with exit code 5\n"));
}

TEST_F(RunLoadTest, WrongAnswersAreExitCode5) {
  const auto right = server_.score;
  server_.score = [right](grpc::ServerContext* context, const v1::ScoreRequest& request,
                          v1::ScoreResponse* response) {
    grpc::Status status = right(context, request, response);
    if (request.request_id() == "load-11") {
      response->mutable_results(0)->mutable_candidates(3)->set_score(7);
    }
    return status;
  };
  const Result result = Run({"--verify", "--thresholds=answered>=30"});
  EXPECT_EQ(result.code, kLoadWrong);
  EXPECT_THAT(result.err, AllOf(StartsWith("canopy_load: wrong answer: request load-11 (tiny"),
                                HasSubstr("questions[0].candidates[3].score: expected 0."),
                                HasSubstr(", got 7\n")));
  EXPECT_THAT(result.out, HasSubstr("WRONG     request load-11"));
}

TEST_F(RunLoadTest, MissedThresholdsAreExitCode4) {
  const Result missed = Run({"--thresholds=answered<30,refused<=0"});
  EXPECT_EQ(missed.code, kLoadMissed);
  EXPECT_THAT(missed.out, HasSubstr("MISSED    answered is 30, not < 30\n"));
  EXPECT_EQ(Run({"--thresholds=answered>=30,refused<=0,wrong<=0"}).code, kLoadOk);
}

TEST_F(RunLoadTest, NothingAnsweredIsExitCode1) {
  server_.score = [](grpc::ServerContext* /*context*/, const v1::ScoreRequest& /*request*/,
                     v1::ScoreResponse* /*response*/) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  };
  const Result result = Run({"--requests=3", "--thresholds=answered>=30"});
  EXPECT_EQ(result.code, kLoadFailed);
  EXPECT_THAT(result.out, HasSubstr("ended     INTERNAL 3"));
  EXPECT_EQ(Run({"--verify"}).code, kLoadFailed);
  const Result unknown = Run({"--model=other"});
  EXPECT_EQ(unknown.code, kLoadFailed);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND: no model\n"));
}

TEST_F(RunLoadTest, NoServerIsExitCode3) {
  std::string target;
  {
    const FakeScorer gone;
    target = gone.target();
  }
  const Result result = Run({"--targets=" + server_.target() + "," + target});
  EXPECT_EQ(result.code, kLoadUnreachable);
  EXPECT_THAT(result.err, AllOf(StartsWith("canopy_load: " + target + ": UNAVAILABLE: "),
                                HasSubstr("is canopy_server running there?")));
}

TEST_F(RunLoadTest, NoRateWithinTheGoalIsExitCode4) {
  const Result result = Run(
      {"--search", "--arrivals=constant", "--rate=1000", "--latency_goal=1ns", "--duration=5ms"});
  EXPECT_EQ(result.code, kLoadMissed);
  EXPECT_THAT(result.out, HasSubstr("does not hold\n"));
  EXPECT_THAT(result.out, HasSubstr("highest rate within the goal: 0.0 requests a second"));
}

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The example of docs/LOAD.md, without --arrivals. The report describes the best rate, not the
// first.
TEST_F(RunLoadTest, ASearchReportsTheRateThatItsFiguresAreOf) {
  const std::string page = ::testing::TempDir() + "/search.html";
  const Result result = Run({"--search", "--latency_goal=10s", "--rate=40", "--requests=3",
                             "--json=-", "--html=" + page});
  EXPECT_TRUE(result.code == kLoadOk || result.code == kLoadMissed) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_THAT(result.err, HasSubstr("highest rate within the goal: "));
  double best = 0;
  double last = 0;
  for (const auto& probe : json["probes"]) {
    last = probe["rate"];
    best = probe["holds"] ? std::max(best, last) : best;
  }
  ASSERT_GE(json["probes"].size(), 2U);
  EXPECT_THAT(json["load"].get<std::string>(),
              HasSubstr(absl::StrCat("constant, ", best > 0 ? best : last, " requests a second")));
  EXPECT_THAT(ReadText(page), AllOf(HasSubstr("Rates tried"), HasSubstr("offered</span>"),
                                    HasSubstr("goal</span>")));
}

TEST_F(RunLoadTest, ReportsAsJsonCsvAndHtml) {
  const std::string folder = ::testing::TempDir();
  const Result result =
      Run({"--json=-", "--csv=" + folder + "/load.csv", "--html=" + folder + "/load.html",
           "--arrivals=step", "--steps=10000x3ms", "--seed=4"});
  ASSERT_EQ(result.code, kLoadOk) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["figures"]["answered"], 30);
  EXPECT_EQ(json["outcomes"]["OK"], 30);
  EXPECT_EQ(json["settings"]["seed"], "4");
  EXPECT_EQ(json["model"]["name"], "hash");
  EXPECT_EQ(json["targets"][0]["answered"], 30);
  EXPECT_GT(json["figures"]["latency_p99.9_ms"], 0);
  int answered = 0;
  for (const auto& interval : json["intervals"]) {
    answered += interval["answered"].get<int>();
  }
  EXPECT_EQ(answered, 30);

  std::ostringstream csv;
  csv << std::ifstream(folder + "/load.csv").rdbuf();
  EXPECT_THAT(csv.str(), StartsWith("begin_s,end_s,answered,refused,given_up,candidates,in_flight,"
                                    "p50_ms,p90_ms,p95_ms,p99_ms,p99.9_ms,max_ms\n"));
  std::ostringstream html;
  html << std::ifstream(folder + "/load.html").rdbuf();
  EXPECT_THAT(html.str(), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<polyline"),
                                HasSubstr("Where the mean call"), HasSubstr("offered</span>"),
                                Not(HasSubstr("goal</span>")), Not(HasSubstr("<script")),
                                Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
  EXPECT_EQ(Run({"--csv=/nonexistent/x"}).code, kLoadUsage);
}

TEST_F(RunLoadTest, SendsTraces) {
  const std::string path = ::testing::TempDir() + "/trace.jsonl";
  std::ofstream(path) << R"({"at_ms": 0, "shape": "tiny"})"
                      << "\n"
                      << R"({"at_ms": 1, "questions": [{"candidates": [{"tokens": [7]}]}]})";
  const Result result = Run({"--trace=" + path, "--verify"});
  EXPECT_EQ(result.code, kLoadOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 calls with 5 candidates started"));
  const Result missing = Run({"--trace=/nonexistent/x"});
  EXPECT_EQ(missing.code, kLoadUsage);
  EXPECT_THAT(missing.err,
              HasSubstr("--trace: cannot read '/nonexistent/x': No such file or directory"));
}

TEST_F(RunLoadTest, ShapesThatTheModelDoesNotTakeAreUsage) {
  const Result result = Run({"--shapes=1x1:4000+1"});
  EXPECT_EQ(result.code, kLoadUsage);
  EXPECT_THAT(result.err, HasSubstr("4001 tokens exceed the model's max_path_tokens 2048"));
}

TEST(LoadUsageTest, WrongFlagsAreExitCode2) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"extra"}, "unexpected argument 'extra'"},
      {{"--speed=3"}, "unknown flag --speed"},
      {{"--svg=x"}, "unknown flag --svg"},
      {{"--clients=0"}, "--clients: 0 is not in 1 .. "},
      {{"--rate=0"}, "--rate: 0 is not in "},
      {{"--rate=nan"}, "--rate: nan is not in "},
      {{"--duration=0"}, "--duration: 0 is not in "},
      {{"--warmup=-1s"}, "--warmup: -1s is not in "},
      {{"--rpc=calls"}, "--rpc: 'calls' is not one of score|stream"},
      {{"--victims=-1"}, "--victims: -1 is not in 0 .. 256"},
      {{"--victim_life=0"}, "--victim_life: 0 is not in 1ms .. "},
      {{"--cancel_share=1.5"}, "--cancel_share: 1.5 is not in 0 .. 1"},
      {{"--cancel_share=0.6", "--kill_share=0.6"}, "--kill_share: 1.2 is not in 0 .. 1"},
      {{"--arrivals=bursts"}, "--arrivals: 'bursts' is not one of"},
      {{"--arrivals=step"}, "--steps: goes with --arrivals=step"},
      {{"--steps=1x1s"}, "--steps: goes with --arrivals=step"},
      {{"--arrivals=step", "--steps=1"}, "--steps: step '1' is not"},
      {{"--arrivals=poisson", "--trace=x"}, "--arrivals: a trace has instants of its own"},
      {{"--shapes=huge"}, "--shapes: 'huge' is not a shape"},
      {{"--targets=127.0.0.1"}, "has no port"},
      {{"--targets=127.0.0.1:1=x"}, "--targets: target '127.0.0.1:1=x' is not"},
      {{"--search"}, "--search: needs a goal, as --latency_goal=50ms"},
      {{"--search", "--latency_goal=1s", "--trace=x"}, "--search: has rates of its own"},
      {{"--search", "--latency_goal=1s", "--arrivals=closed"}, "--search: has rates of its own"},
      {{"--latency_goal=0"}, "--latency_goal: must be positive"},
      {{"--thresholds=fast"}, "--thresholds: threshold 'fast' is not"},
      {{"--tls_ca=x"}, "--tls: files are given, but not --tls"},
      {{"--tls", "--tls_ca=/nonexistent/x"}, "--tls: cannot read '/nonexistent/x'"},
      {{"--tls", "--kill_share=0.1"}, "--kill_share: connections are cut in plaintext only"},
      {{"--token_file=/nonexistent/x"}, "--token_file: cannot read"},
      {{"--backend=fast"}, "--backend: 'fast' is not one of"},
      {{"--html=/nonexistent/x"}, "--html: cannot write '/nonexistent/x'"},
      {{"--csv=/"}, "--csv: cannot write '/'"},
      {{"--progress=loud"}, "--progress: 'loud' is not one of"},
  };
  for (const auto& [arguments, problem] : cases) {
    const Result result = RunAlone(arguments);
    EXPECT_EQ(result.code, kLoadUsage) << problem;
    EXPECT_THAT(result.err, AllOf(StartsWith("canopy_load: "), HasSubstr(problem)));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST(LoadUsageTest, HelpNamesFlagsShapesAndExitCodes) {
  const Result result = RunAlone({"--help"});
  EXPECT_EQ(result.code, kLoadOk);
  EXPECT_THAT(result.out, AllOf(HasSubstr("--verify=false"), HasSubstr("--shapes=small"),
                                HasSubstr("  rollout  "), HasSubstr("Exit codes: 0 ok")));
}

}  // namespace
}  // namespace canopy::client
