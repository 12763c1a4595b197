#include "server/net/http_request.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using State = HttpParse::State;

constexpr char kEnd[] = "\r\nHost: a\r\n\r\n";

TEST(HttpRequestTest, ReadsMethodPathAndWhetherMoreComes) {
  struct Case {
    std::string text;
    std::string method;
    std::string path;
    bool keep_alive;
    bool has_body;
  };
  for (const Case& each : {
           Case{absl::StrCat("GET /metrics HTTP/1.1", kEnd), "GET", "/metrics", true, false},
           {absl::StrCat("HEAD /metrics?a=b?c HTTP/1.0", kEnd), "HEAD", "/metrics", false, false},
           {absl::StrCat("\r\n\r\nGET / HTTP/1.1", kEnd), "GET", "/", true, false},
           {"GET /metrics HTTP/1.1\n\n", "GET", "/metrics", true, false},
           {absl::StrCat("GET http://a:1/metrics HTTP/1.1", kEnd), "GET", "/metrics", true, false},
           {absl::StrCat("GET HTTP://[::1]:1/metrics?x HTTP/1.1", kEnd), "GET", "/metrics", true,
            false},
           {absl::StrCat("GET https://a?x=/metrics HTTP/1.1", kEnd), "GET", "/", true, false},
           {absl::StrCat("GET http://a HTTP/1.1", kEnd), "GET", "/", true, false},
           {absl::StrCat("GET //metrics HTTP/1.1", kEnd), "GET", "//metrics", true, false},
           {"GET / HTTP/1.1\r\ncOnnection: x , Close\r\n\r\n", "GET", "/", false, false},
           {"GET / HTTP/1.0\r\nConnection:keep-alive\r\n\r\n", "GET", "/", false, false},
           {"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", "GET", "/", true, false},
           {"GET / HTTP/1.1\r\nConnection: close, keep-alive\r\n\r\n", "GET", "/", false, false},
           {"GET / HTTP/1.1\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", "GET", "/",
            false, false},
           {"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "POST", "/", true, true},
           {"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "GET", "/", true, false},
           {"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "PUT", "/", true, true},
           {absl::StrCat("OPTIONS * HTTP/1.1", kEnd), "OPTIONS", "", true, false},
           {absl::StrCat("CONNECT a:1 HTTP/1.1", kEnd), "CONNECT", "", true, false},
       }) {
    SCOPED_TRACE(each.text);
    const HttpParse parse = ParseHttpRequest(each.text);
    ASSERT_EQ(parse.state, State::kDone) << parse.problem;
    EXPECT_EQ(parse.request.method, each.method);
    EXPECT_EQ(parse.request.path, each.path);
    EXPECT_EQ(parse.request.keep_alive, each.keep_alive);
    EXPECT_EQ(parse.request.has_body, each.has_body);
    // The head is incomplete until its last byte, and the bytes after it are not part of it.
    const size_t head = parse.request.head_bytes;
    EXPECT_EQ(ParseHttpRequest(each.text.substr(0, head - 1)).state, State::kIncomplete);
    EXPECT_EQ(ParseHttpRequest(each.text + "GET /").request.head_bytes, head);
  }
}

TEST(HttpRequestTest, RefusesWhatIsNotARequest) {
  struct Case {
    std::string text;
    int status;
  };
  for (const Case& each : {
           Case{"nonsense\r\n\r\n", 400},
           {"GET /metrics\r\n\r\n", 400},
           {"GET  /metrics HTTP/1.1\r\n\r\n", 400},
           {"GET /metrics a HTTP/1.1\r\n\r\n", 400},
           {"GET /metrics XTTP/1.1\r\n\r\n", 400},
           {"GET /metrics HTTP/11\r\n\r\n", 400},
           {"G(T /metrics HTTP/1.1\r\n\r\n", 400},
           {"GET /met\001rics HTTP/1.1\r\n\r\n", 400},
           {std::string("GET /met\0rics HTTP/1.1\r\n\r\n", 26), 400},
           {"GET metrics HTTP/1.1\r\n\r\n", 400},
           {"GET ftp://a/metrics HTTP/1.1\r\n\r\n", 400},
           {"GET http:///metrics HTTP/1.1\r\n\r\n", 400},
           {"\x16\x03\x01\x02\n", 400},
           {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nname : value\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\na: b\r\n folded\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
           {"GET / HTTP/0.9\r\n\r\n", 505},
           {absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(9'000, 'y')), 431},
           {std::string(9'000, 'x'), 431},
           {absl::StrCat("GET / HTTP/1.1\r\n", std::string(9'000, '\n').replace(0, 1, "a:b")), 200},
       }) {
    SCOPED_TRACE(each.text.substr(0, 60));
    const HttpParse parse = ParseHttpRequest(each.text);
    if (each.status == 200) {
      EXPECT_EQ(parse.state, State::kDone);
      continue;
    }
    EXPECT_EQ(parse.state, State::kRefused);
    EXPECT_EQ(parse.status, each.status);
    EXPECT_FALSE(parse.problem.empty());
  }
}

TEST(HttpRequestTest, AHeadMayHaveTheLimitsBytesAndNotOneMore) {
  const std::string begin = "GET / HTTP/1.1\r\nX: ";
  const std::string end = "\r\n\r\n";
  const size_t room = kMaxHttpHeadBytes - begin.size() - end.size();
  EXPECT_EQ(ParseHttpRequest(absl::StrCat(begin, std::string(room, 'y'), end)).state, State::kDone);
  const HttpParse parse = ParseHttpRequest(absl::StrCat(begin, std::string(room + 1, 'y'), end));
  EXPECT_EQ(parse.state, State::kRefused);
  EXPECT_EQ(parse.status, 431);
}

TEST(HttpRequestTest, AnswersHaveAHeadAndGetsOneABody) {
  HttpAnswer answer;
  answer.body = "page\n";
  answer.keep_alive = true;
  EXPECT_THAT(FormatHttpAnswer(answer),
              MatchesRegex("HTTP/1.1 200 OK\r\nDate: [A-Z][a-z][a-z], [0-9]+ [A-Z][a-z][a-z] "
                           "[0-9]+ [0-9:]+ GMT\r\nContent-Type: text/plain; charset=utf-8\r\n"
                           "Content-Length: 5\r\n\r\npage\n"));
  answer.sends_body = false;
  EXPECT_TRUE(absl::EndsWith(FormatHttpAnswer(answer), "Content-Length: 5\r\n\r\n"));
  EXPECT_THAT(FormatHttpAnswer(answer), Not(HasSubstr("Allow")));
  answer.keep_alive = false;
  answer.status = 405;
  EXPECT_THAT(FormatHttpAnswer(answer), HasSubstr("405 Method Not Allowed\r\n"));
  EXPECT_THAT(FormatHttpAnswer(answer), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(FormatHttpAnswer(answer), HasSubstr("\r\nConnection: close\r\n"));
}

}  // namespace
}  // namespace canopy::server
