#include "server/telemetry/metrics_listener.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/status_macros.h"

namespace canopy::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kPath[] = "/metrics";
constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";
// The most connections that are accepted before the open ones are served.
constexpr int kMaxAcceptedAtOnce = 16;
constexpr std::chrono::milliseconds kExhaustedPause{100};

static_assert(MetricsListener::kMaxConnections <= kReservedDescriptors / 2);

// The indices in pollers_.
constexpr size_t kStop = 0;
constexpr size_t kListen = 1;
constexpr size_t kFirstConnection = 2;

// Returns whether a client waits to be accepted, which accept does not report without a free
// descriptor.
bool HasWaitingClient(const ListenSocket& socket) {
  pollfd poller = {socket.fd(), POLLIN, 0};
  return poll(&poller, 1, 0) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::function<std::string()> render) {
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<ListenSocket> socket, ListenSocket::Open(address));
  return std::unique_ptr<MetricsListener>(
      new MetricsListener(std::move(socket), std::move(render)));
}

MetricsListener::MetricsListener(std::unique_ptr<ListenSocket> socket,
                                 std::function<std::string()> render)
    : socket_(std::move(socket)), page_{kPath, kContentType, std::move(render)}, thread_([this] {
        Loop();
      }) {}

MetricsListener::~MetricsListener() {
  socket_->Stop();
  thread_.join();
}

void MetricsListener::Loop() {
  while (Wait()) {
    AdvanceConnections();
    AcceptConnections();
  }
  connections_.clear();
}

bool MetricsListener::Wait() {
  const auto now = Clock::now();
  auto wake_at = is_exhausted_ ? now + kExhaustedPause : Clock::time_point::max();
  pollers_.assign(kFirstConnection, pollfd{});
  pollers_[kStop] = {socket_->stop_fd(), POLLIN, 0};
  // poll ignores negative descriptors.
  pollers_[kListen] = {is_exhausted_ ? -1 : socket_->fd(), POLLIN, 0};
  for (const auto& connection : connections_) {
    pollers_.push_back({connection->fd(), connection->events(), 0});
    wake_at = std::min(wake_at, connection->deadline());
  }
  int timeout_ms = -1;
  if (wake_at != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake_at - now);
    timeout_ms = static_cast<int>(std::max<int64_t>(left.count(), 0));
  }
  if (poll(pollers_.data(), pollers_.size(), timeout_ms) < 0) {
    // poll was interrupted, so the state of the descriptors is unknown.
    for (pollfd& poller : pollers_) {
      poller.revents = 0;
    }
  }
  return pollers_[kStop].revents == 0;
}

void MetricsListener::AdvanceConnections() {
  const auto now = Clock::now();
  auto next = connections_.begin();
  for (size_t i = kFirstConnection; i < pollers_.size(); ++i) {
    const auto connection = next++;
    const bool is_ready = pollers_[i].revents != 0;
    if (!is_ready && now < (*connection)->deadline()) {
      continue;
    }
    if (!(*connection)->Advance(now)) {
      connections_.erase(connection);
    } else if (is_ready) {
      connections_.splice(connections_.end(), connections_, connection);
    }
  }
}

void MetricsListener::AcceptConnections() {
  const bool was_exhausted = std::exchange(is_exhausted_, false);
  if (pollers_[kListen].revents == 0 && !was_exhausted) {
    return;
  }
  for (int i = 0; i < kMaxAcceptedAtOnce; ++i) {
    int fd = socket_->TryAccept();
    if (fd < 0 && ListenSocket::IsExhausted(errno)) {
      if (!HasWaitingClient(*socket_)) {
        return;
      }
      errno = EMFILE;
      if (EvictIdle()) {
        fd = socket_->TryAccept();
      }
    }
    if (fd < 0) {
      is_exhausted_ = ListenSocket::IsExhausted(errno);
      return;
    }
    MakeRoom();
    const auto now = Clock::now();
    auto connection = std::make_unique<HttpConnection>(fd, &page_, now);
    // The request has often arrived together with the connection.
    if (connection->Advance(now)) {
      connections_.push_back(std::move(connection));
    }
  }
}

void MetricsListener::MakeRoom() {
  if (connections_.size() >= kMaxConnections && !EvictIdle()) {
    connections_.pop_front();
  }
}

bool MetricsListener::EvictIdle() {
  const auto idle = std::find_if(connections_.begin(), connections_.end(),
                                 [](const auto& connection) { return connection->idle(); });
  if (idle == connections_.end()) {
    return false;
  }
  connections_.erase(idle);
  return true;
}

}  // namespace canopy::server
