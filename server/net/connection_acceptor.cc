#include "server/net/connection_acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace canopy::server {
namespace {

// The system hands out the lowest free number, so a high number shows how many are in use.
bool IsScarce(int fd) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(fd) + kReservedDescriptors >= limit.rlim_cur;
}

constexpr absl::Duration kClosePollInterval = absl::Milliseconds(1);

// Returns a number that identifies the socket of `fd`, or 0 if `fd` is not an open file. The
// descriptor itself does not identify it: the system reuses the number for the next file.
uint64_t IdentityOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0) {
    return cookie;
  }
  // Sandboxes without socket cookies still number their sockets.
  struct stat file {};
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

// Sends the end of the stream on the connection of `fd` if it is still the one whose identity was
// taken. Works on a duplicate: gRPC may close `fd` between the check and the shutdown, and another
// thread may get its number, but the duplicate keeps referring to the same socket. If no descriptor
// is free for the duplicate, `fd` itself is checked and shut down.
void ShutdownWrites(int fd, uint64_t identity) {
  const int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own_fd < 0) {
    if (IdentityOf(fd) == identity) {
      (void)shutdown(fd, SHUT_WR);
    }
    return;
  }
  if (IdentityOf(own_fd) == identity) {
    (void)shutdown(own_fd, SHUT_WR);
  }
  close(own_fd);
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    // If this fails, the lower limit stays, which is safe.
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
}

ConnectionAcceptor::ConnectionAcceptor(
    std::unique_ptr<ListenSocket> socket,
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> sink,
    std::function<void()> refused)
    : address_(socket->address()),
      socket_(std::move(socket)),
      sink_(std::move(sink)),
      refused_(std::move(refused)),
      thread_([this] { Loop(); }) {}

void ConnectionAcceptor::Stop() {
  if (socket_ != nullptr) {
    socket_->Stop();
    thread_.join();
    socket_.reset();
  }
}

void ConnectionAcceptor::EndConnections(std::chrono::steady_clock::time_point deadline) {
  const auto forget_closed = [this] {
    absl::erase_if(connections_,
                   [](const auto& entry) { return IdentityOf(entry.first) != entry.second; });
  };
  for (const auto& [fd, identity] : connections_) {
    ShutdownWrites(fd, identity);
  }
  forget_closed();
  while (!connections_.empty() && std::chrono::steady_clock::now() < deadline) {
    absl::SleepFor(kClosePollInterval);
    forget_closed();
  }
}

void ConnectionAcceptor::Loop() {
  for (int fd = socket_->Accept(); fd >= 0; fd = socket_->Accept()) {
    if (IsScarce(fd)) {
      close(fd);
      if (refused_) {
        refused_();
      }
      continue;
    }
    // Small answers must not wait for an acknowledgement, and gRPC sets this option only on its own
    // sockets.
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    connections_[fd] = IdentityOf(fd);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = socket_->fd();
    connection.fd = fd;
    sink_->HandleNewConnection(&connection);
  }
}

}  // namespace canopy::server
