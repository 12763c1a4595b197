// What an engine counts, for metrics.
#ifndef CORE_ENGINE_ENGINE_STATS_H_
#define CORE_ENGINE_ENGINE_STATS_H_

#include <cstdint>

namespace canopy {

struct EngineStats {
  // Now: jobs with a forward that has not been launched, and the tokens that such forwards compute,
  // as estimated.
  int64_t queued_normal = 0;
  int64_t queued_low = 0;
  int64_t queued_tokens = 0;

  // Since the start: accepted = answered + displaced + expired + cancelled + those still inside.
  int64_t accepted = 0;
  int64_t answered = 0;   // with a result or an error of their own
  int64_t displaced = 0;  // accepted, then refused for one that the full queue owed a place
  int64_t expired = 0;
  int64_t cancelled = 0;
  // Refused when they came.
  int64_t refused_queued_requests = 0;
  int64_t refused_queued_tokens = 0;
  int64_t refused_deadline = 0;
  int64_t refused_draining = 0;

  int64_t forwards = 0;
  int64_t out_of_memory_forwards = 0;  // of them, those that found no device memory
  double device_seconds = 0;
  double wasted_device_seconds = 0;  // of it, spent on jobs that expired or were cancelled
};

// One forward that has run, well or not.
struct ForwardRecord {
  int64_t requests = 0;
  int64_t computed_tokens = 0;
  double device_seconds = 0;
};

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_STATS_H_
