#include "server/http_exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace canopy::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTimeout = std::chrono::seconds(2);
constexpr size_t kMaxRequestBytes = 8 << 10;

// Whether `fd` becomes ready for `events` before `deadline`.
bool AwaitReady(int fd, int16_t events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd poller{fd, events, 0};
  return left.count() > 0 && poll(&poller, 1, static_cast<int>(left.count())) > 0;
}

bool Interrupted() { return errno == EAGAIN || errno == EINTR; }

// The request up to the blank line that ends its headers; '' when it does not come.
std::string ReadHeaders(int fd) {
  const auto deadline = Clock::now() + kTimeout;
  std::string request;
  while (request.size() < kMaxRequestBytes && AwaitReady(fd, POLLIN, deadline)) {
    char buffer[1024];
    const ssize_t size = recv(fd, buffer, sizeof(buffer), 0);
    if (size == 0 || (size < 0 && !Interrupted())) {
      break;
    }
    request.append(buffer, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (absl::StrContains(request, "\r\n\r\n")) {
      return request;
    }
  }
  return {};
}

void SendAll(int fd, absl::string_view bytes) {
  const auto deadline = Clock::now() + kTimeout;
  while (!bytes.empty() && AwaitReady(fd, POLLOUT, deadline)) {
    const ssize_t size = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && !Interrupted()) {
      return;
    }
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
}

std::string Response(absl::string_view status, absl::string_view body) {
  return absl::StrCat("HTTP/1.1 ", status,
                      "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"
                      "\r\nContent-Length: ",
                      body.size(), "\r\nConnection: close\r\n\r\n", body);
}

}  // namespace

void AnswerHttp(int fd, absl::string_view path, const std::function<std::string()>& render) {
  const std::string request = ReadHeaders(fd);
  if (request.empty()) {
    return;
  }
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(request).substr(0, request.find("\r\n")), ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    SendAll(fd, Response("400 Bad Request", "bad request\n"));
  } else if (words[0] != "GET") {
    SendAll(fd, Response("405 Method Not Allowed", "only GET\n"));
  } else if (words[1].substr(0, words[1].find('?')) != path) {
    SendAll(fd, Response("404 Not Found", absl::StrCat("only ", path, "\n")));
  } else {
    SendAll(fd, Response("200 OK", render()));
  }
}

}  // namespace canopy::server
