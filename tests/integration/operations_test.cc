// The metrics and logs of a real server: every declared metric, and one log line per request.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/telemetry/metric_table.h"
#include "server/telemetry/request_log.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;
using Json = nlohmann::json;

constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

v1::ScoreRequest SmallRequest(const std::string& id) {
  v1::ScoreRequest request;
  request.set_request_id(id);
  AddQuestion(&request, {901, 902}, {{903}, {904}})->mutable_candidates(0)->set_id("secret");
  return request;
}

std::string TypeOf(const server::MetricDeclaration& declaration) {
  switch (declaration.type) {
    case server::MetricType::kCounter:
      return "counter";
    case server::MetricType::kGauge:
      return "gauge";
    case server::MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

size_t CountSeries(const std::string& page) {
  const std::string body = page.substr(page.find("\r\n\r\n") + 4);
  const std::vector<absl::string_view> lines = absl::StrSplit(body, '\n', absl::SkipEmpty());
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(),
                                           [](absl::string_view line) { return line[0] != '#'; }));
}

TEST(MetricsPageTest, ShowsEveryDeclaredMetricAndNoOther) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  v1::ScoreResponse response;
  ASSERT_TRUE(Succeeded(server.Score(SmallRequest(""), &response)));
  const std::string page = Scrape(server.server().metrics_address());

  std::vector<std::string> declared;
  for (const server::MetricDeclaration& declaration : server::MetricTable()) {
    declared.push_back(absl::StrCat(declaration.name, " ", TypeOf(declaration)));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("# HELP ", declaration.name, " ", declaration.help)));
  }
  std::vector<std::string> shown;
  const std::string body = page.substr(page.find("\r\n\r\n") + 4);
  for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "# TYPE ")) {
      shown.emplace_back(line.substr(7));
    }
  }
  EXPECT_THAT(shown, UnorderedElementsAreArray(declared));
  EXPECT_LT(CountSeries(page), 1'200);

  EXPECT_EQ(MetricValue(page, "canopy_ready"), 1);
  EXPECT_EQ(MetricValue(page, "canopy_model_version{model=\"reward\"}"), 1);
  for (const char* name : {"process_open_fds", "process_max_fds", "process_threads",
                           "process_resident_memory_bytes", "process_cpu_seconds_total"}) {
    EXPECT_GT(MetricValue(page, name), 0) << name;
  }
  for (const auto& [name, value] : options.Limits()) {
    EXPECT_GE(MetricValue(page, absl::StrCat("canopy_limit{name=\"", name, "\"}")), 0) << name;
  }
  // The page is kept for tools such as promtool.
  if (const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR"); folder != nullptr) {
    std::ofstream(absl::StrCat(folder, "/metrics.txt")) << body;
  }
}

TEST(MetricsPageTest, ErrorsAreCountedByTheirReason) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer server(options);
  v1::ScoreRequest request = SmallRequest("");
  request.mutable_routing()->set_policy(v1::POLICY_MEASURED);
  v1::ScoreResponse response;
  EXPECT_FALSE(server.Score(request, &response).ok());
  request.set_model("nobody");
  EXPECT_FALSE(server.Score(request, &response).ok());
  server.server().Drain(absl::ZeroDuration());
  const std::string page = Scrape(server.server().metrics_address());
  EXPECT_EQ(MetricValue(page, "canopy_errors_total{reason=\"POLICY_UNAVAILABLE\"}"), 1);
  EXPECT_EQ(MetricValue(page, "canopy_errors_total{reason=\"none\"}"), 1);
  EXPECT_EQ(MetricValue(page, "canopy_ready"), 0);
}

TEST(MetricsPageTest, TheSeriesDoNotDependOnRequestsOrScrapes) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  options.calls.log_requests = server::LogRequests::kNone;
  TestServer server(options);
  const std::string address = server.server().metrics_address();
  const size_t series = CountSeries(Scrape(address));
  constexpr int kScrapers = 4;
  constexpr int kScrapes = 20;
  std::vector<std::thread> scrapers;
  scrapers.reserve(kScrapers);
  std::atomic<int> whole{0};
  for (int i = 0; i < kScrapers; ++i) {
    scrapers.emplace_back([&] {
      for (int scrape = 0; scrape < kScrapes; ++scrape) {
        whole += CountSeries(Scrape(address)) == series ? 1 : 0;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    v1::ScoreRequest request = SmallRequest(absl::StrCat("id", i));
    request.set_model(absl::StrCat("model", i));
    v1::ScoreResponse response;
    EXPECT_FALSE(server.Score(request, &response).ok());
    std::string answer;
    grpc::ClientContext context;
    EXPECT_FALSE(
        server.Call(absl::StrCat("/canopy.v1.Scorer/Method", i), "", &answer, &context).ok());
  }
  for (std::thread& scraper : scrapers) {
    scraper.join();
  }
  EXPECT_EQ(whole, kScrapers * kScrapes);
  const std::string page = Scrape(address);
  EXPECT_EQ(CountSeries(page), series);
  EXPECT_THAT(page, Not(HasSubstr("model7")));
}

// Returns whether a figure is a token of SmallRequest. The tokens are chosen so that no other
// figure of a line equals one.
bool IsToken(const Json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 901 && value.get<int64_t>() <= 904;
}

// Returns the lines of `events` that `run` writes, parsed as JSON. 0 = no limit.
template <typename Run>
std::vector<Json> LinesOf(const std::set<std::string>& events, const Run& run,
                          int32_t lines_per_second = 0) {
  SetLogOptions({LogFormat::kJson, lines_per_second});
  ::testing::internal::CaptureStderr();
  run();
  const std::string text = ::testing::internal::GetCapturedStderr();
  SetLogOptions({});
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  std::vector<Json> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(parsed.is_object()) << line;
    if (parsed.is_object() && events.count(parsed.value("event", "")) > 0) {
      for (const auto& [key, value] : parsed.items()) {
        EXPECT_FALSE(IsToken(value)) << key;
      }
      lines.push_back(std::move(parsed));
    }
  }
  return lines;
}

TEST(RequestLogTest, EachAnswerHasALineWithItsIdTraceCountsAndTimes) {
  server::ServerOptions options = FakeServerOptions();
  options.calls.log_requests = server::LogRequests::kAll;
  const std::string id = "id \"😀\"\n";
  const auto lines = LinesOf({"request"}, [&] {
    TestServer server(options);
    grpc::ClientContext context;
    SetTestDeadline(&context);
    context.AddMetadata("traceparent", kTraceparent);
    v1::ScoreResponse response;
    EXPECT_TRUE(Succeeded(server.stub().Score(&context, SmallRequest(id), &response)));
  });
  ASSERT_EQ(lines.size(), 1);
  const Json& line = lines[0];
  EXPECT_EQ(line["severity"], "INFO");
  EXPECT_EQ(line["method"], "Score");
  EXPECT_EQ(line["code"], "OK");
  EXPECT_EQ(line["request_id"], id);
  EXPECT_EQ(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(line["parent_id"], "00f067aa0ba902b7");
  EXPECT_EQ(line["model"], "reward");
  EXPECT_EQ(line["questions"], 1);
  EXPECT_EQ(line["paths"], 2);
  EXPECT_EQ(line["input_tokens"], 6);
  EXPECT_EQ(line["route_reason"], "small_batch");
  EXPECT_GT(line["total_ms"], 0);
  EXPECT_GE(line["total_ms"], line["device_ms"]);
}

TEST(RequestLogTest, ErrorsHaveALineByDefaultAndTheIdThatTheClientGot) {
  std::string message;
  std::string made_id;
  const auto lines =
      LinesOf({"request", "request_refused", "request_failed", "internal_error"}, [&] {
        TestServer server;
        v1::ScoreResponse response;
        EXPECT_TRUE(Succeeded(server.Score(SmallRequest("fine"), &response)));
        v1::ScoreRequest unknown = SmallRequest("r-2");
        unknown.set_model("nobody");
        EXPECT_FALSE(server.Score(unknown, &response).ok());
        server.controls().FailWith(absl::InternalError("our fault"));
        grpc::ClientContext context;
        SetTestDeadline(&context);
        v1::ScoreRequest request = SmallRequest("");
        request.mutable_routing()->set_backend(v1::BACKEND_PATH);
        message = server.stub().Score(&context, request, &response).error_message();
        const auto& trailers = context.GetServerTrailingMetadata();
        if (const auto found = trailers.find(server::kRequestIdTrailer); found != trailers.end()) {
          made_id = std::string(found->second.data(), found->second.size());
        }
      });
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0]["event"], "request_refused");
  EXPECT_EQ(lines[0]["code"], "NOT_FOUND");
  EXPECT_EQ(lines[0]["request_id"], "r-2");
  EXPECT_EQ(lines[1]["event"], "internal_error");
  EXPECT_THAT(lines[1]["error"].get<std::string>(), HasSubstr("our fault"));
  EXPECT_EQ(message, absl::StrCat("internal error ", lines[1]["id"].get<std::string>()));
  EXPECT_EQ(lines[2]["event"], "request_failed");
  EXPECT_EQ(lines[2]["error_id"], lines[1]["id"]);
  EXPECT_EQ(lines[2]["request_id"], made_id);
  EXPECT_EQ(made_id.size(), 16);
}

// The operator can tell the client what is wrong, on a stream too.
TEST(RequestLogTest, ARefusedRequestNamesTheFieldAndNotTheTokens) {
  v1::ScoreRequest outside = SmallRequest("r-1");
  AddQuestion(&outside, {901}, {{902}, {4'000'000'000}});
  v1::ScoreRequest empty = SmallRequest("r-2");
  empty.clear_questions();
  const auto lines = LinesOf({"request_refused"}, [&] {
    TestServer server;
    v1::ScoreResponse response;
    EXPECT_FALSE(server.Score(outside, &response).ok());
    grpc::ClientContext context;
    SetTestDeadline(&context);
    const auto stream = server.stub().ScoreStream(&context);
    stream->Write(empty);
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_TRUE(response.has_error());
    stream->WritesDone();
    EXPECT_TRUE(Succeeded(stream->Finish()));
  });
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(lines[0]["field"], "questions[1].candidates[1].tokens");
  EXPECT_THAT(lines[0]["reason"].get<std::string>(), HasSubstr("outside the vocabulary of"));
  EXPECT_THAT(lines[0].dump(), Not(HasSubstr("4000000000")));
  EXPECT_THAT(lines[0].dump(), Not(HasSubstr("-294967296")));
  EXPECT_EQ(lines[1]["field"], "questions");
  EXPECT_EQ(lines[1]["reason"], "a request needs at least one question");
}

TEST(RequestLogTest, EachRequestOfAStreamHasALine) {
  server::ServerOptions options = FakeServerOptions();
  options.calls.log_requests = server::LogRequests::kAll;
  const auto lines = LinesOf({"request", "request_refused", "stream_ended"}, [&] {
    TestServer server(options);
    grpc::ClientContext context;
    SetTestDeadline(&context);
    context.AddMetadata("traceparent", kTraceparent);
    const auto stream = server.stub().ScoreStream(&context);
    v1::ScoreResponse response;
    for (const char* id : {"a", ""}) {
      stream->Write(SmallRequest(id));
      EXPECT_TRUE(stream->Read(&response));
    }
    stream->WritesDone();
    EXPECT_TRUE(Succeeded(stream->Finish()));
  });
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0]["request_id"], "a");
  EXPECT_EQ(lines[0]["method"], "ScoreStream");
  EXPECT_EQ(lines[0]["paths"], 2);
  EXPECT_EQ(lines[1]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(lines[1]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  const Json& end = lines[2];
  EXPECT_EQ(end["event"], "stream_ended");
  EXPECT_EQ(end["severity"], "INFO");
  EXPECT_EQ(end["code"], "OK");
  EXPECT_EQ(end["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(end["requests"], 2);
  EXPECT_GT(end["total_ms"], 0);
}

TEST(RequestLogTest, AStreamThatADrainEndsHasALineByDefault) {
  const auto lines = LinesOf({"stream_ended"}, [] {
    TestServer server;
    for (const bool drains : {false, true}) {
      grpc::ClientContext context;
      SetTestDeadline(&context);
      const auto stream = server.stub().ScoreStream(&context);
      v1::ScoreResponse response;
      stream->Write(SmallRequest("a"));
      EXPECT_TRUE(stream->Read(&response));
      if (drains) {
        EXPECT_TRUE(server.server().Drain(absl::Minutes(5)));
      }
      stream->WritesDone();
      EXPECT_EQ(stream->Finish().error_code(),
                drains ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::OK);
    }
  });
  ASSERT_EQ(lines.size(), 1) << "one that ends as it should has none";
  EXPECT_EQ(lines[0]["severity"], "WARNING");
  EXPECT_EQ(lines[0]["code"], "UNAVAILABLE");
  EXPECT_EQ(lines[0]["reason"], "DRAINING");
}

// With any number of errors, every id that a client receives is in the log, and the log stays
// small.
TEST(RequestLogTest, ManyInternalErrorsKeepTheLogSmallAndEveryIdFindable) {
  constexpr int kCalls = 400;
  // The limit exceeds the number of lines that other tests may have written in this second.
  constexpr int kLinesPerSecond = 20;
  std::set<std::string> told;
  const auto flood = [&told] {
    TestServer server;
    server.controls().FailWith(absl::InternalError("our fault"));
    v1::ScoreRequest request = SmallRequest("x");
    request.mutable_routing()->set_backend(v1::BACKEND_PATH);
    for (int i = 0; i < kCalls; ++i) {
      v1::ScoreResponse response;
      told.insert(server.Score(request, &response).error_message());
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto lines = LinesOf({"internal_error"}, flood, kLinesPerSecond);
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
  std::set<std::string> logged;
  for (const Json& line : lines) {
    logged.insert(absl::StrCat("internal error ", line["id"].get<std::string>()));
  }
  EXPECT_EQ(logged, told);
  EXPECT_GE(lines.size(), 10);
  // Each window of the limit lasts at least a second, so at most seconds + 1 windows overlap the
  // test.
  EXPECT_LE(lines.size(), static_cast<size_t>(kLinesPerSecond * (seconds.count() + 1)));
}

// Returns the bytes of NumPy's arange(1, size + 1, dtype=int64).
std::string Int64Bytes(int size) {
  std::string bytes;
  for (int token = 1; token <= size; ++token) {
    bytes += static_cast<char>(token);
    bytes += std::string(7, '\0');
  }
  return bytes;
}

v1::ScoreRequest RequestWithRaw(const std::string& id, const std::string& raw) {
  v1::ScoreRequest request = SmallRequest(id);
  request.mutable_questions(0)->mutable_prefix()->Clear();
  request.mutable_questions(0)->mutable_prefix()->set_raw(raw);
  return request;
}

TEST(RawTokenWarningTest, Int64BytesInRawAreCountedAndLoggedOnceForAClient) {
  server::ServerOptions options = FakeServerOptions();
  options.metrics_listen = "127.0.0.1:0";
  const auto lines = LinesOf({"suspicious_raw_tokens"}, [&options] {
    TestServer server(options);
    v1::ScoreResponse response;
    EXPECT_TRUE(Succeeded(server.Score(RequestWithRaw("short", Int64Bytes(3)), &response)));
    const std::string int32_bytes(
        "\1\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 32);
    EXPECT_TRUE(Succeeded(server.Score(RequestWithRaw("int32", int32_bytes), &response)));
    const std::string& address = server.server().metrics_address();
    EXPECT_EQ(MetricValue(Scrape(address), "canopy_suspicious_raw_requests_total"), 0);

    const v1::ScoreRequest suspicious = RequestWithRaw("int64", Int64Bytes(4));
    EXPECT_TRUE(Succeeded(server.Score(suspicious, &response)));
    v1::ExplainRequest explain;
    *explain.mutable_request() = suspicious;
    v1::ExplainResponse explained;
    EXPECT_TRUE(Succeeded(server.Explain(explain, &explained)));
    // A second connection of the same host.
    const auto stub = v1::Scorer::NewStub(Connect(server.server().address()));
    grpc::ClientContext context;
    SetTestDeadline(&context);
    const auto stream = stub->ScoreStream(&context);
    stream->Write(suspicious);
    stream->WritesDone();
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_TRUE(Succeeded(stream->Finish()));
    // Read as int32, an int64 array has twice as many tokens, so long paths exceed the limit and
    // are refused.
    EXPECT_EQ(server.Score(RequestWithRaw("long", Int64Bytes(1'100)), &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(MetricValue(Scrape(address), "canopy_suspicious_raw_requests_total"), 4);
  });
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["severity"], "WARNING");
  EXPECT_EQ(lines[0]["field"], "questions[0].prefix.raw");
  EXPECT_THAT(lines[0]["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
  EXPECT_THAT(lines[0]["hint"].get<std::string>(), HasSubstr("raw64"));
}

}  // namespace
}  // namespace canopy::testing
