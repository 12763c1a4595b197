// What the system knows of this process, for metrics.
#ifndef SERVER_TELEMETRY_PROCESS_STATS_H_
#define SERVER_TELEMETRY_PROCESS_STATS_H_

#include <cstdint>

namespace canopy::server {

struct ProcessStats {
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  int64_t threads = 0;
  int64_t resident_bytes = 0;
  double cpu_seconds = 0;         // of all threads, user and system
  double start_time_seconds = 0;  // since the Unix epoch
};

// Reads /proc/self; what cannot be read is 0. Thread-safe.
ProcessStats ReadProcessStats();

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_PROCESS_STATS_H_
