// The system's figures about this process, for metrics.
#ifndef SERVER_TELEMETRY_PROCESS_STATS_H_
#define SERVER_TELEMETRY_PROCESS_STATS_H_

#include <cstdint>

namespace canopy::server {

struct ProcessStats {
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  int64_t threads = 0;
  int64_t resident_bytes = 0;
  double cpu_seconds = 0;         // user and system time of all threads
  double start_time_seconds = 0;  // seconds since the Unix epoch
};

// Reads /proc/self. A figure that cannot be read is 0. Thread-safe.
ProcessStats ReadProcessStats();

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_PROCESS_STATS_H_
