// TCP sockets that listen for connections.
#ifndef SERVER_NET_LISTEN_SOCKET_H_
#define SERVER_NET_LISTEN_SOCKET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace canopy::server {

// Descriptors that gRPC's connections must leave free for metrics, health and model files.
inline constexpr int kReservedDescriptors = 32;

// A listening socket and a way to stop the threads that wait for it. Thread-safe.
class ListenSocket {
 public:
  // Binds HOST:PORT; port 0 = any free port. Returns UNAVAILABLE with the reason if that fails.
  static absl::StatusOr<std::unique_ptr<ListenSocket>> Open(const std::string& address);
  ~ListenSocket();
  ListenSocket(const ListenSocket&) = delete;
  ListenSocket& operator=(const ListenSocket&) = delete;

  // Returns HOST:PORT with the bound port.
  const std::string& address() const { return address_; }
  int fd() const { return fd_; }

  // Waits for a connection and returns its non-blocking descriptor, which the caller owns. Returns
  // -1 after Stop. If descriptors or memory have run out, tries again ten times a second.
  int Accept();
  // Returns a waiting connection, as Accept does, or -1 with errno if there is none. Never blocks.
  int TryAccept();
  // Returns whether `error`, an errno of TryAccept, means that descriptors or memory have run out.
  // The socket stays readable then, so that a poll of it would return at once.
  static bool IsExhausted(int error);
  // Makes every current and later Accept return -1, and makes stop_fd() readable.
  void Stop();
  int stop_fd() const { return stop_fd_; }

 private:
  ListenSocket(int fd, int stop_fd, std::string address);

  const int fd_;
  const int stop_fd_;  // readable after Stop
  const std::string address_;
};

}  // namespace canopy::server

#endif  // SERVER_NET_LISTEN_SOCKET_H_
