#include "server/metrics_listener.h"

#include <unistd.h>

#include <utility>

#include "core/base/status_macros.h"
#include "server/http_exchange.h"

namespace canopy::server {
namespace {

constexpr char kPath[] = "/metrics";
constexpr int kNumThreads = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::function<std::string()> render) {
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<ListenSocket> socket, ListenSocket::Open(address));
  return std::unique_ptr<MetricsListener>(
      new MetricsListener(std::move(socket), std::move(render)));
}

MetricsListener::MetricsListener(std::unique_ptr<ListenSocket> socket,
                                 std::function<std::string()> render)
    : socket_(std::move(socket)), render_(std::move(render)) {
  for (int i = 0; i < kNumThreads; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

MetricsListener::~MetricsListener() {
  socket_->Stop();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void MetricsListener::Loop() {
  for (int fd = socket_->Accept(); fd >= 0; fd = socket_->Accept()) {
    AnswerHttp(fd, kPath, render_);
    close(fd);
  }
}

}  // namespace canopy::server
