// One connection of a client to the metrics listener: a state machine over a non-blocking socket.
//
//   reading   bytes of a request arrive
//   writing   the answer is being sent; then the next request is read, or
//   draining  bytes that the client still sends are discarded until it closes, because closing a
//             socket with unread bytes resets the connection, and the client loses the answer
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

// The only page of the listener.
struct HttpPage {
  std::string path;
  std::string content_type;
  std::function<std::string()> render;
};

// Thread-compatible. Owns the socket.
class HttpConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A request must arrive within this time after its first byte, and the first request of a
  // connection must begin within this time after the connection. While an answer is sent, the
  // client must read some of it within this time.
  static constexpr std::chrono::seconds kTimeout{2};
  // The client must read the whole answer within this time.
  static constexpr std::chrono::seconds kAnswerTimeout{30};
  // The time that a connection waits for its next request: longer than the common scrape interval
  // of a minute.
  static constexpr std::chrono::seconds kIdleTimeout{75};

  // `fd` must be non-blocking. `page` must outlive the connection.
  HttpConnection(int fd, const HttpPage* page, TimePoint now);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Reads and writes as much as the socket allows without blocking. Returns false if the connection
  // has ended, also by its deadline; the caller then destroys it. A request that has arrived is
  // answered even if the deadline passed before this call.
  bool Advance(TimePoint now);

  int fd() const { return fd_; }
  // Returns the events that poll must wait for.
  int16_t events() const;
  TimePoint deadline() const { return deadline_; }
  // Returns whether no answer is being made or sent.
  bool idle() const { return state_ != State::kWriting; }

 private:
  enum class State { kReading, kWriting, kDraining };

  // These methods return false if the connection has ended.
  bool Read(TimePoint now);
  bool Write(TimePoint now);
  bool Drain();
  void Answer(const HttpParse& parse, TimePoint now);
  HttpAnswer AnswerTo(const HttpRequest& request, std::string* page) const;

  const int fd_;
  const HttpPage& page_;
  State state_ = State::kReading;
  TimePoint deadline_;
  TimePoint answer_deadline_;  // used while writing
  std::string in_;
  std::string out_;
  size_t num_sent_ = 0;  // the number of bytes of out_ that were sent
  bool keep_alive_ = false;
};

}  // namespace canopy::server

#endif  // SERVER_NET_HTTP_CONNECTION_H_
