// One connection over a socket pair, with times that the test chooses.
#include "server/net/http_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

class HttpConnectionTest : public ::testing::Test {
 protected:
  ~HttpConnectionTest() override { close(client_); }

  void Start(const std::string& text = "canopy_ready 1\n") {
    page_ = {"/metrics", "text/plain", [text] { return text; }};
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[0];
    connection_ = std::make_unique<HttpConnection>(ends[1], &page_, begin_);
  }

  void Send(const std::string& bytes) {
    ASSERT_EQ(send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // Returns the bytes that have arrived, up to a small limit.
  std::string Receive() const {
    std::string bytes(4'096, '\0');
    const ssize_t size = recv(client_, &bytes[0], bytes.size(), 0);
    bytes.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return bytes;
  }

  bool AdvanceAt(std::chrono::steady_clock::duration after) {
    return connection_->Advance(begin_ + after);
  }

  const HttpConnection::TimePoint begin_{seconds(1'000)};
  HttpPage page_;
  int client_ = -1;
  std::unique_ptr<HttpConnection> connection_;
};

TEST_F(HttpConnectionTest, WaitsForTheNextScrapeOfAMinute) {
  Start();
  Send(kGet);
  ASSERT_TRUE(AdvanceAt(seconds(0)));
  EXPECT_TRUE(absl::StartsWith(Receive(), "HTTP/1.1 200 OK"));
  EXPECT_TRUE(AdvanceAt(seconds(60)));
  Send(kGet);
  ASSERT_TRUE(AdvanceAt(seconds(61)));
  EXPECT_TRUE(absl::StartsWith(Receive(), "HTTP/1.1 200 OK"));
  EXPECT_TRUE(AdvanceAt(seconds(61) + HttpConnection::kIdleTimeout - milliseconds(1)));
  EXPECT_FALSE(AdvanceAt(seconds(61) + HttpConnection::kIdleTimeout));
}

// On a busy machine the listener's thread may notice a request only after its deadline.
TEST_F(HttpConnectionTest, ARequestThatHasArrivedIsAnsweredAfterTheDeadline) {
  Start();
  Send(kGet);
  EXPECT_TRUE(AdvanceAt(HttpConnection::kTimeout + seconds(1)));
  EXPECT_TRUE(absl::StartsWith(Receive(), "HTTP/1.1 200 OK"));
}

TEST_F(HttpConnectionTest, ARequestMustEndSoonAfterItBegins) {
  Start();
  Send("GET /metr");
  EXPECT_TRUE(AdvanceAt(seconds(1)));
  EXPECT_TRUE(AdvanceAt(seconds(1) + HttpConnection::kTimeout - milliseconds(1)));
  EXPECT_FALSE(AdvanceAt(seconds(1) + HttpConnection::kTimeout));
}

TEST_F(HttpConnectionTest, ASilentConnectionEnds) {
  Start();
  EXPECT_TRUE(AdvanceAt(HttpConnection::kTimeout - milliseconds(1)));
  EXPECT_FALSE(AdvanceAt(HttpConnection::kTimeout));
}

TEST_F(HttpConnectionTest, ASlowReaderIsDroppedAfterTheAnswersTime) {
  Start(std::string(64 << 20, 'x'));
  Send(kGet);
  ASSERT_TRUE(AdvanceAt(seconds(0)));
  // Reads some bytes each second, so that there is always progress.
  seconds last{0};
  for (seconds at{1}; at < 10 * HttpConnection::kAnswerTimeout; ++at) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(Receive().empty());
    }
    if (!AdvanceAt(at)) {
      break;
    }
    last = at;
  }
  EXPECT_EQ(last, HttpConnection::kAnswerTimeout - seconds(1));
}

}  // namespace
}  // namespace canopy::server
