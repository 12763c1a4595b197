// One connection of a client to the metrics listener: a state machine over a non-blocking socket.
//
//   reading   bytes of a request arrive
//   writing   its answer is on the way out; then the next request is read, or
//   draining  what the client still sends is thrown away until it closes, because a socket that is
//             closed with unread bytes resets the connection, and the client loses the answer
#ifndef SERVER_NET_HTTP_CONNECTION_H_
#define SERVER_NET_HTTP_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/net/http_request.h"

namespace canopy::server {

// The one page that there is.
struct HttpPage {
  std::string path;
  std::string content_type;
  std::function<std::string()> render;
};

// Thread-compatible. Owns the socket.
class HttpConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A request must have arrived this long after its first byte, and a connection's first request
  // must have begun this long after the connection. While an answer is sent, the client must take a
  // piece of it within this time.
  static constexpr std::chrono::seconds kTimeout{2};
  // The whole answer must be taken within this time.
  static constexpr std::chrono::seconds kAnswerTimeout{30};
  // How long a connection that has had an answer waits for its next request: longer than the common
  // scrape interval of a minute.
  static constexpr std::chrono::seconds kIdleTimeout{75};

  // `fd` must be non-blocking. `page` must outlive the connection.
  HttpConnection(int fd, const HttpPage* page, TimePoint now);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Reads and writes as much as the socket takes without waiting. Returns false once the connection
  // is over, and its deadline ends it too: it is to be destroyed then. A request that has arrived
  // is answered even if the deadline passed before this call looked.
  bool Advance(TimePoint now);

  int fd() const { return fd_; }
  // The events that poll should wait for.
  int16_t events() const;
  TimePoint deadline() const { return deadline_; }
  // No answer is being made or sent.
  bool idle() const { return state_ != State::kWriting; }

 private:
  enum class State { kReading, kWriting, kDraining };

  // Each returns false once the connection is over.
  bool Read(TimePoint now);
  bool Write(TimePoint now);
  bool Drain();
  void Answer(const HttpParse& parse, TimePoint now);
  HttpAnswer AnswerTo(const HttpRequest& request, std::string* page) const;

  const int fd_;
  const HttpPage& page_;
  State state_ = State::kReading;
  TimePoint deadline_;
  TimePoint answer_deadline_;  // while writing
  std::string in_;
  std::string out_;
  size_t num_sent_ = 0;  // of out_
  bool keep_alive_ = false;
};

}  // namespace canopy::server

#endif  // SERVER_NET_HTTP_CONNECTION_H_
