#include "server/net/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"

namespace canopy::server {
namespace {

constexpr int kBacklog = 1'024;
constexpr int kExhaustedWaitMs = 100;

absl::Status BindError(absl::string_view address, absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", reason));
}

absl::Status BindError(absl::string_view address, int error) {
  return BindError(address, error == EADDRINUSE ? "address already in use"
                                                : std::generic_category().message(error));
}

// Returns a socket that listens on the first address that can be bound; -1 if none can, with the
// errno of the last one.
int Bind(const addrinfo* addresses) {
  for (const addrinfo* entry = addresses; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
      continue;
    }
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, entry->ai_addr, entry->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) {
      return fd;
    }
    const int error = errno;
    close(fd);
    errno = error;
  }
  return -1;
}

int BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListenSocket>> ListenSocket::Open(const std::string& address) {
  const auto parts = SplitAddress(address);
  if (!parts.has_value()) {
    return BindError(address, "not HOST:PORT");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* addresses = nullptr;
  if (const int error =
          getaddrinfo(parts->host.c_str(), absl::StrCat(parts->port).c_str(), &hints, &addresses);
      error != 0) {
    return BindError(address, gai_strerror(error));
  }
  const absl::Cleanup free_addresses = [addresses] { freeaddrinfo(addresses); };
  const int fd = Bind(addresses);
  if (fd < 0) {
    return BindError(address, errno);
  }
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) {
    const int error = errno;
    close(fd);
    return BindError(address, error);
  }
  return std::unique_ptr<ListenSocket>(
      new ListenSocket(fd, stop_fd, WithPort(address, BoundPort(fd))));
}

ListenSocket::ListenSocket(int fd, int stop_fd, std::string address)
    : fd_(fd), stop_fd_(stop_fd), address_(std::move(address)) {}

ListenSocket::~ListenSocket() {
  close(fd_);
  close(stop_fd_);
}

int ListenSocket::Accept() {
  bool exhausted = false;
  while (true) {
    // Without free descriptors the socket stays readable, so this waits for the timeout instead.
    pollfd pollers[] = {{stop_fd_, POLLIN, 0}, {exhausted ? -1 : fd_, POLLIN, 0}};
    const int ready = poll(pollers, 2, exhausted ? kExhaustedWaitMs : -1);
    if (ready > 0 && pollers[0].revents != 0) {
      return -1;
    }
    const int connection = TryAccept();
    if (connection >= 0) {
      return connection;
    }
    exhausted = IsExhausted(errno);
  }
}

int ListenSocket::TryAccept() {
  return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool ListenSocket::IsExhausted(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void ListenSocket::Stop() {
  const uint64_t one = 1;
  // The write cannot fail, because the counter is far from its limit.
  (void)!write(stop_fd_, &one, sizeof(one));
}

}  // namespace canopy::server
