// TCP sockets of ours that wait for connections.
#ifndef SERVER_NET_LISTEN_SOCKET_H_
#define SERVER_NET_LISTEN_SOCKET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace canopy::server {

// Descriptors that gRPC's connections leave to everything else: metrics, health, model files.
inline constexpr int kReservedDescriptors = 32;

// A listening socket and a way to stop the threads that wait for it. Thread-safe.
class ListenSocket {
 public:
  // Binds HOST:PORT, port 0 = any free one. UNAVAILABLE with the reason when it cannot.
  static absl::StatusOr<std::unique_ptr<ListenSocket>> Open(const std::string& address);
  ~ListenSocket();
  ListenSocket(const ListenSocket&) = delete;
  ListenSocket& operator=(const ListenSocket&) = delete;

  // HOST:PORT with the bound port.
  const std::string& address() const { return address_; }
  int fd() const { return fd_; }

  // Waits for a connection and returns its non-blocking descriptor, which the caller owns; -1 once
  // Stop was called. Where descriptors or memory have run out, it tries again ten times a second.
  int Accept();
  // Returns a connection that waits, as Accept does, or -1 with errno if there is none. Does not
  // wait.
  int TryAccept();
  // Returns whether `error`, an errno of TryAccept, says that descriptors or memory have run out.
  // The socket stays readable then, so that polling it would not wait.
  static bool IsExhausted(int error);
  // Lets every Accept, now and later, return -1, and makes stop_fd() readable.
  void Stop();
  int stop_fd() const { return stop_fd_; }

 private:
  ListenSocket(int fd, int stop_fd, std::string address);

  const int fd_;
  const int stop_fd_;  // readable once stopped
  const std::string address_;
};

}  // namespace canopy::server

#endif  // SERVER_NET_LISTEN_SOCKET_H_
