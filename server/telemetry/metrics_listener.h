// Serves GET /metrics over plain HTTP/1.1, for Prometheus. docs/adr/0008-metrics-listener.md gives
// the reasons for not using a packaged HTTP server.
#ifndef SERVER_TELEMETRY_METRICS_LISTENER_H_
#define SERVER_TELEMETRY_METRICS_LISTENER_H_

#include <poll.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/net/http_connection.h"
#include "server/net/listen_socket.h"

namespace canopy::server {

// One thread serves all connections and never blocks on one of them, so that silent, slow or
// numerous clients delay no scrape. Thread-safe. The destructor closes the connections, stops the
// thread and joins it.
class MetricsListener {
 public:
  // The most open connections: at most half of kReservedDescriptors. A new connection beyond the
  // limit closes the one that has been idle for longest, or the oldest one if none is idle. Without
  // a free descriptor, a new connection also closes the one that has been idle for longest.
  static constexpr size_t kMaxConnections = 16;

  // Starts the listener. `render` returns the page and is called on the listener's thread. Returns
  // UNAVAILABLE if HOST:PORT cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      const std::string& address, std::function<std::string()> render);
  ~MetricsListener();
  MetricsListener(const MetricsListener&) = delete;
  MetricsListener& operator=(const MetricsListener&) = delete;

  // Returns HOST:PORT with the bound port.
  const std::string& address() const { return socket_->address(); }

 private:
  MetricsListener(std::unique_ptr<ListenSocket> socket, std::function<std::string()> render);
  void Loop();
  // Waits for the stop, the listening socket or a connection. Returns false if the listener must
  // stop.
  bool Wait();
  void AdvanceConnections();
  void AcceptConnections();
  void MakeRoom();
  // Closes the connection that has been idle for longest. Returns false if none is idle.
  bool EvictIdle();

  const std::unique_ptr<ListenSocket> socket_;
  const HttpPage page_;
  // The thread owns all members below. The connection that was used last is at the back.
  std::list<std::unique_ptr<HttpConnection>> connections_;
  std::vector<pollfd> pollers_;
  bool is_exhausted_ = false;  // a connection waits, but no descriptor is free for it
  std::thread thread_;         // last, because it uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRICS_LISTENER_H_
