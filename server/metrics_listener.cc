#include "server/metrics_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/address.h"
#include "server/http_exchange.h"

namespace canopy::server {
namespace {

constexpr char kPath[] = "/metrics";
constexpr int kNumThreads = 4;
constexpr int kBacklog = 64;

absl::Status BindError(absl::string_view address) {
  return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", address));
}

// A listening socket on the first of the addresses that can be bound; -1 = none can.
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
    close(fd);
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

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::function<std::string()> render) {
  const auto parts = SplitAddress(address);
  if (!parts.has_value()) {
    return BindError(address);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(parts->host.c_str(), absl::StrCat(parts->port).c_str(), &hints, &addresses) !=
      0) {
    return BindError(address);
  }
  const absl::Cleanup free_addresses = [addresses] { freeaddrinfo(addresses); };
  const int listen_fd = Bind(addresses);
  if (listen_fd < 0) {
    return BindError(address);
  }
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) {
    close(listen_fd);
    return BindError(address);
  }
  return std::unique_ptr<MetricsListener>(new MetricsListener(
      listen_fd, stop_fd, WithPort(address, BoundPort(listen_fd)), std::move(render)));
}

MetricsListener::MetricsListener(int listen_fd, int stop_fd, std::string address,
                                 std::function<std::string()> render)
    : listen_fd_(listen_fd),
      stop_fd_(stop_fd),
      address_(std::move(address)),
      render_(std::move(render)) {
  for (int i = 0; i < kNumThreads; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

MetricsListener::~MetricsListener() {
  const uint64_t one = 1;
  // Cannot fail: the counter is far from full.
  (void)!write(stop_fd_, &one, sizeof(one));
  for (std::thread& thread : threads_) {
    thread.join();
  }
  close(listen_fd_);
  close(stop_fd_);
}

void MetricsListener::Loop() {
  while (true) {
    pollfd pollers[] = {{stop_fd_, POLLIN, 0}, {listen_fd_, POLLIN, 0}};
    if (poll(pollers, 2, -1) < 0) {
      continue;
    }
    if (pollers[0].revents != 0) {
      return;
    }
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      AnswerHttp(fd, kPath, render_);
      close(fd);
    }
  }
}

}  // namespace canopy::server
