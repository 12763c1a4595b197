#include "client/load/traffic/killable_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/support/channel_arguments.h"

namespace canopy::client {
namespace {

// Returns a connected socket; -1 = none.
int Connect(const std::string& address) {
  const std::optional<Address> parts = SplitAddress(address);
  if (!parts.has_value()) {
    return -1;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(parts->host.c_str(), absl::StrCat(parts->port).c_str(), &hints, &addresses) !=
      0) {
    return -1;
  }
  const absl::Cleanup free_addresses = [addresses] { freeaddrinfo(addresses); };
  for (const addrinfo* entry = addresses; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, entry->ai_addr, entry->ai_addrlen) == 0) {
      return fd;
    }
    if (fd >= 0) {
      close(fd);
    }
  }
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KillableConnection>> KillableConnection::Open(
    const std::string& address) {
  const int fd = Connect(address);
  const int own_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own_fd < 0) {
    if (fd >= 0) {
      close(fd);
    }
    return absl::UnavailableError(absl::StrCat("cannot connect to ", address));
  }
  const int on = 1;
  // Errors are ignored, because only the latency depends on the option.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)fcntl(fd, F_SETFL, O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  auto channel = grpc::CreateCustomInsecureChannelFromFd(address, fd, arguments);
  return std::unique_ptr<KillableConnection>(new KillableConnection(own_fd, std::move(channel)));
}

KillableConnection::KillableConnection(int fd, std::shared_ptr<grpc::Channel> channel)
    : fd_(fd), channel_(std::move(channel)) {}

KillableConnection::~KillableConnection() {
  Kill();
  close(fd_);
}

void KillableConnection::Kill() { (void)shutdown(fd_, SHUT_RDWR); }

}  // namespace canopy::client
