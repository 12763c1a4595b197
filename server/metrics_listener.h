// GET /metrics over plain HTTP/1.1, for Prometheus.
//
// prometheus-cpp's own exposer cannot start beside CUDA: its web server asks for threads of 100 KiB
// stack, and cuBLASLt's thread-local storage alone takes 94 KiB of that.
#ifndef SERVER_METRICS_LISTENER_H_
#define SERVER_METRICS_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/listen_socket.h"

namespace canopy::server {

// Answers one request a connection. A few threads serve, so that a scraper that hangs, for at most
// two seconds, leaves others their turn. Thread-safe; the destructor stops and joins.
class MetricsListener {
 public:
  // `render` gives the page and is called from several threads. UNAVAILABLE when HOST:PORT cannot
  // be bound.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      const std::string& address, std::function<std::string()> render);
  ~MetricsListener();
  MetricsListener(const MetricsListener&) = delete;
  MetricsListener& operator=(const MetricsListener&) = delete;

  // HOST:PORT with the bound port.
  const std::string& address() const { return socket_->address(); }

 private:
  MetricsListener(std::unique_ptr<ListenSocket> socket, std::function<std::string()> render);
  void Loop();

  const std::unique_ptr<ListenSocket> socket_;
  const std::function<std::string()> render_;
  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace canopy::server

#endif  // SERVER_METRICS_LISTENER_H_
