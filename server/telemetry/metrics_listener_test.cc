// The metrics listener over real sockets: correct clients next to silent, slow, many and wrong
// ones.
#include "server/telemetry/metrics_listener.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/loopback_socket.h"

namespace canopy::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The client's end of a connection.
class Peer {
 public:
  explicit Peer(const std::string& address)
      : fd_(testing::ConnectTo(address, std::chrono::seconds(20))) {}
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t size = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size < 0) {
        return;  // the answer shows whether the failure is permitted
      }
      sent += static_cast<size_t>(size);
    }
  }

  // Reads until the server closes. A reset connection fails the test.
  std::string ReadToEnd() {
    std::string all;
    char chunk[16'384];
    ssize_t size = 0;
    while ((size = recv(fd_, chunk, sizeof(chunk), 0)) > 0) {
      all.append(chunk, static_cast<size_t>(size));
    }
    EXPECT_EQ(size, 0) << "errno " << errno << " after " << all.size() << " bytes";
    return all;
  }

  // Reads one answer with a body of `body_bytes` on a connection that stays open.
  std::string ReadAnswer(size_t body_bytes) {
    std::string all;
    char byte = 0;
    while (!absl::StrContains(all, "\r\n\r\n") && recv(fd_, &byte, 1, 0) == 1) {
      all += byte;
    }
    for (size_t i = 0; i < body_bytes && recv(fd_, &byte, 1, 0) == 1; ++i) {
      all += byte;
    }
    return all;
  }

 private:
  const int fd_;
};

// Returns the number of descriptors of this process, which also runs the server.
int NumDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
constexpr char kGetMore[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr char kPage[] = "canopy_ready 1\n";

class MetricsListenerTest : public ::testing::Test {
 protected:
  void Start(const std::string& page = kPage) {
    auto listener =
        MetricsListener::Start("127.0.0.1:0", [this, page] { return ++renders_, page; });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  std::string Ask(const std::string& request) {
    Peer peer(listener_->address());
    peer.Send(request);
    return peer.ReadToEnd();
  }

  static std::string BodyOf(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

  std::atomic<int> renders_{0};
  std::unique_ptr<MetricsListener> listener_;
};

TEST_F(MetricsListenerTest, AnswersAScrape) {
  Start();
  const std::string answer = Ask(kGet);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_EQ(BodyOf(answer), kPage);
  EXPECT_THAT(Ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), EndsWith(kPage));
  EXPECT_THAT(Ask("GET http://a:9/metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              EndsWith(kPage));
}

TEST_F(MetricsListenerTest, HeadIsAnsweredLikeGetWithoutABody) {
  Start();
  const std::string head = Ask("HEAD /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(head, HasSubstr(absl::StrCat("\r\nContent-Length: ", sizeof(kPage) - 1, "\r\n")));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  EXPECT_THAT(Ask("HEAD /other HTTP/1.1\r\nHost: a\r\n\r\n"), EndsWith("\r\n\r\n"));
}

TEST_F(MetricsListenerTest, SilentConnectionsDelayNoScrape) {
  Start();
  std::vector<std::unique_ptr<Peer>> silent;
  for (size_t i = 0; i < MetricsListener::kMaxConnections - 2; ++i) {
    silent.push_back(std::make_unique<Peer>(listener_->address()));
    if (i % 2 == 0) {
      silent.back()->Send("GET /metr");
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(Ask(kGet), EndsWith(kPage));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, HttpConnection::kTimeout);
  // Each connection is closed after its timeout.
  EXPECT_EQ(silent.front()->ReadToEnd(), "");
  EXPECT_EQ(silent.back()->ReadToEnd(), "");
}

TEST_F(MetricsListenerTest, MoreConnectionsThanAreKeptDelayNoScrape) {
  Start();
  std::vector<std::unique_ptr<Peer>> silent;
  for (size_t i = 0; i < 3 * MetricsListener::kMaxConnections; ++i) {
    silent.push_back(std::make_unique<Peer>(listener_->address()));
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(Ask(kGet), EndsWith(kPage));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, HttpConnection::kTimeout);
}

TEST_F(MetricsListenerTest, TheConnectionThatWasIdleForLongestMakesRoom) {
  Start();
  Peer first(listener_->address());
  first.Send(kGetMore);
  EXPECT_THAT(first.ReadAnswer(sizeof(kPage) - 1), EndsWith(kPage));
  std::vector<std::unique_ptr<Peer>> others;
  for (size_t i = 0; i < MetricsListener::kMaxConnections - 1; ++i) {
    others.push_back(std::make_unique<Peer>(listener_->address()));
    others.back()->Send(kGetMore);
    EXPECT_THAT(others.back()->ReadAnswer(sizeof(kPage) - 1), EndsWith(kPage));
  }
  // The first connection is used again, so that one of the others is the oldest now.
  first.Send(kGetMore);
  EXPECT_THAT(first.ReadAnswer(sizeof(kPage) - 1), EndsWith(kPage));
  EXPECT_THAT(Ask(kGet), EndsWith(kPage));
  EXPECT_EQ(others[0]->ReadToEnd(), "");
  first.Send(kGet);
  EXPECT_THAT(first.ReadToEnd(), EndsWith(kPage));
}

TEST_F(MetricsListenerTest, WithoutAFreeDescriptorAnIdleConnectionMakesRoom) {
  Start();
  Peer kept(listener_->address());
  kept.Send(kGetMore);
  EXPECT_THAT(kept.ReadAnswer(sizeof(kPage) - 1), EndsWith(kPage));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{64, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<int> fillers;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
    fillers.push_back(fd);
  }
  ASSERT_FALSE(fillers.empty());
  // Leaves one descriptor free, for the client's end.
  close(fillers.back());
  fillers.pop_back();
  EXPECT_THAT(Ask(kGet), EndsWith(kPage));
  EXPECT_EQ(kept.ReadToEnd(), "");
  for (const int fd : fillers) {
    close(fd);
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_F(MetricsListenerTest, AConnectionCarriesManyRequests) {
  Start();
  Peer peer(listener_->address());
  for (int i = 0; i < 3; ++i) {
    peer.Send(kGetMore);
    const std::string answer = peer.ReadAnswer(sizeof(kPage) - 1);
    EXPECT_THAT(answer, EndsWith(kPage));
    EXPECT_FALSE(absl::StrContains(answer, "Connection: close"));
  }
  // A request before the answer to the previous one is not read, and the answer says so.
  peer.Send(absl::StrCat(kGetMore, kGetMore));
  EXPECT_THAT(peer.ReadToEnd(), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_EQ(renders_, 4);
}

TEST_F(MetricsListenerTest, ARequestMayComeByteByByte) {
  Start();
  Peer peer(listener_->address());
  for (const char byte : std::string(kGet)) {
    peer.Send(std::string(1, byte));
  }
  EXPECT_THAT(peer.ReadToEnd(), EndsWith(kPage));
}

// The answer must not be lost to a reset, however much the client sends.
TEST_F(MetricsListenerTest, WrongRequestsGetAnAnswerAndAProperClose) {
  Start();
  struct Case {
    std::string request;
    std::string status;
  };
  const std::string large(1'000'000, 'y');
  for (const Case& each : {
           Case{absl::StrCat("GET /metrics HTTP/1.1\r\nX: ", std::string(9'000, 'y'), "\r\n\r\n"),
                "431 Request Header Fields Too Large"},
           {absl::StrCat("GET /metrics HTTP/1.1\r\nX: ", large, "\r\n\r\n"),
            "431 Request Header Fields Too Large"},
           {absl::StrCat("GET /", large), "431 Request Header Fields Too Large"},
           {absl::StrCat("POST /metrics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", large),
            "405 Method Not Allowed"},
           {absl::StrCat("GET / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", large),
            "404 Not Found"},
           {"nonsense\r\n\r\n", "400 Bad Request"},
           {"GET /metrics HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"},
       }) {
    SCOPED_TRACE(each.request.substr(0, 60));
    Peer peer(listener_->address());
    // The server answers before all of the request was sent.
    std::thread sender([&] { peer.Send(each.request); });
    const std::string answer = peer.ReadToEnd();
    sender.join();
    EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", each.status, "\r\n")));
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_FALSE(BodyOf(answer).empty());
    EXPECT_EQ(absl::StrContains(answer, "\r\nAllow: GET, HEAD\r\n"),
              absl::StartsWith(each.status, "405"));
  }
  EXPECT_EQ(renders_, 0);
}

TEST_F(MetricsListenerTest, AClientThatDoesNotReadDelaysNobodyAndIsDropped) {
  // The body exceeds the socket buffers.
  Start(std::string(64 << 20, 'x'));
  Peer stalled(listener_->address());
  stalled.Send(kGet);
  EXPECT_THAT(stalled.ReadAnswer(0), StartsWith("HTTP/1.1 200 OK"));
  const int before = NumDescriptors();
  EXPECT_EQ(BodyOf(Ask(kGet)).size(), size_t{64} << 20);
  // The server gives up while the client does nothing, and the rest of the page is lost.
  const auto give_up = std::chrono::steady_clock::now() + 10 * HttpConnection::kTimeout;
  while (NumDescriptors() > before - 1 && std::chrono::steady_clock::now() < give_up) {
    EXPECT_THAT(Ask("GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
                StartsWith("HTTP/1.1 404"));
  }
  EXPECT_LT(stalled.ReadToEnd().size(), size_t{64} << 20);
}

TEST_F(MetricsListenerTest, StopsAtOnceWithOpenConnections) {
  Start();
  Peer silent(listener_->address());
  Peer kept(listener_->address());
  kept.Send(kGetMore);
  EXPECT_THAT(kept.ReadAnswer(sizeof(kPage) - 1), EndsWith(kPage));
  const auto begin = std::chrono::steady_clock::now();
  listener_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, HttpConnection::kTimeout);
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(kept.ReadToEnd(), "");
}

}  // namespace
}  // namespace canopy::server
