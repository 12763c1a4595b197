// GET /metrics over plain HTTP/1.1, for Prometheus. docs/adr/0008-metrics-listener.md says why no
// packaged HTTP server does this.
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

// One thread serves all connections and never waits for one of them, so that clients that are
// silent, slow or many delay no scrape. Thread-safe; the destructor closes the connections, stops
// and joins.
class MetricsListener {
 public:
  // The most connections that are kept open: at most half of kReservedDescriptors. A new one beyond
  // them ends the one that has been idle for longest, or the oldest if none is idle. Without a free
  // descriptor a new one ends the one that has been idle for longest, too.
  static constexpr size_t kMaxConnections = 16;

  // `render` gives the page and is called from the listener's thread. UNAVAILABLE when HOST:PORT
  // cannot be bound.
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
  // Waits until something can be done: the stop, the listening socket, then the connections.
  // Returns false once the listener is to stop.
  bool Wait();
  void AdvanceConnections();
  void AcceptConnections();
  void MakeRoom();
  // Ends the connection that has been idle for longest. Returns false if none is idle.
  bool EvictIdle();

  const std::unique_ptr<ListenSocket> socket_;
  const HttpPage page_;
  // All below belong to the thread. The connection that was used last is at the back.
  std::list<std::unique_ptr<HttpConnection>> connections_;
  std::vector<pollfd> pollers_;
  bool is_exhausted_ = false;  // no descriptor is left for a connection that waits
  std::thread thread_;         // last: it uses everything above
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRICS_LISTENER_H_
