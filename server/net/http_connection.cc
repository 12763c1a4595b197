#include "server/net/http_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace canopy::server {
namespace {

constexpr size_t kChunkBytes = 16 << 10;
// The most chunks that one Advance reads and discards, so that other connections are not delayed.
constexpr int kMaxDrainedChunks = 16;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

HttpConnection::HttpConnection(int fd, const HttpPage* page, TimePoint now)
    : fd_(fd), page_(*page), deadline_(now + kTimeout) {}

HttpConnection::~HttpConnection() { close(fd_); }

int16_t HttpConnection::events() const { return state_ == State::kWriting ? POLLOUT : POLLIN; }

bool HttpConnection::Advance(TimePoint now) {
  bool goes_on = now < deadline_;
  if (state_ == State::kReading && (goes_on || in_.empty())) {
    goes_on = Read(now) && now < deadline_;
  }
  if (goes_on && state_ == State::kWriting) {
    goes_on = Write(now);
  }
  if (goes_on && state_ == State::kDraining) {
    goes_on = Drain();
  }
  return goes_on;
}

bool HttpConnection::Read(TimePoint now) {
  char chunk[kChunkBytes];
  const ssize_t size = recv(fd_, chunk, sizeof(chunk), 0);
  if (size <= 0) {
    return size < 0 && WouldBlock();
  }
  if (in_.empty()) {
    deadline_ = now + kTimeout;
  }
  in_.append(chunk, static_cast<size_t>(size));
  const HttpParse parse = ParseHttpRequest(in_);
  if (parse.state != HttpParse::State::kIncomplete) {
    Answer(parse, now);
  }
  return true;
}

HttpAnswer HttpConnection::AnswerTo(const HttpRequest& request, std::string* page) const {
  HttpAnswer answer;
  if (request.method != "GET" && request.method != "HEAD") {
    answer.status = 405;
    *page = "only GET and HEAD are allowed\n";
  } else if (request.path != page_.path) {
    answer.status = 404;
    *page = absl::StrCat("there is only ", page_.path, "\n");
  } else {
    *page = page_.render();
    answer.content_type = page_.content_type;
    // Neither a body nor a request that was sent before this answer is read.
    answer.keep_alive = request.keep_alive && !request.has_body && in_.size() == request.head_bytes;
  }
  answer.sends_body = request.method != "HEAD";
  answer.body = *page;
  return answer;
}

void HttpConnection::Answer(const HttpParse& parse, TimePoint now) {
  std::string page;
  HttpAnswer answer;
  if (parse.state == HttpParse::State::kRefused) {
    page = absl::StrCat(parse.problem, "\n");
    answer.status = parse.status;
    answer.body = page;
    answer.sends_body = !absl::StartsWith(in_, "HEAD ");
  } else {
    answer = AnswerTo(parse.request, &page);
  }
  keep_alive_ = answer.keep_alive;
  out_ = FormatHttpAnswer(answer);
  num_sent_ = 0;
  in_.clear();
  state_ = State::kWriting;
  deadline_ = now + kTimeout;
  answer_deadline_ = now + kAnswerTimeout;
}

bool HttpConnection::Write(TimePoint now) {
  while (num_sent_ < out_.size()) {
    const ssize_t size = send(fd_, out_.data() + num_sent_, out_.size() - num_sent_, MSG_NOSIGNAL);
    if (size < 0) {
      return WouldBlock();
    }
    num_sent_ += static_cast<size_t>(size);
    deadline_ = std::min(now + kTimeout, answer_deadline_);
  }
  out_ = std::string();
  if (keep_alive_) {
    state_ = State::kReading;
    deadline_ = now + kIdleTimeout;
  } else {
    (void)shutdown(fd_, SHUT_WR);
    state_ = State::kDraining;
    deadline_ = now + kTimeout;
  }
  return true;
}

bool HttpConnection::Drain() {
  for (int i = 0; i < kMaxDrainedChunks; ++i) {
    char chunk[kChunkBytes];
    const ssize_t size = recv(fd_, chunk, sizeof(chunk), 0);
    if (size <= 0) {
      return size < 0 && WouldBlock();
    }
  }
  return true;
}

}  // namespace canopy::server
