// The counts of an engine, for metrics.
#ifndef CORE_ENGINE_ENGINE_STATS_H_
#define CORE_ENGINE_ENGINE_STATS_H_

#include <cstdint>

namespace canopy {

struct EngineStats {
  // The current numbers of jobs with a forward that was not launched, and the estimated tokens of
  // these forwards.
  int64_t queued_normal = 0;
  int64_t queued_low = 0;
  int64_t queued_tokens = 0;

  // Counts since the start: accepted = answered + displaced + expired + cancelled + jobs in
  // progress.
  int64_t accepted = 0;
  int64_t answered = 0;  // with a result or an error of their own
  // accepted, then refused because a full queue gave the place to another job
  int64_t displaced = 0;
  int64_t expired = 0;
  int64_t cancelled = 0;
  // Jobs that were refused on arrival.
  int64_t refused_queued_requests = 0;
  int64_t refused_queued_tokens = 0;
  int64_t refused_deadline = 0;
  int64_t refused_draining = 0;

  int64_t forwards = 0;
  int64_t out_of_memory_forwards = 0;  // the forwards that ran out of device memory
  double device_seconds = 0;
  double wasted_device_seconds = 0;  // the device time of jobs that expired or were cancelled
};

// One forward that has run, successfully or not.
struct ForwardRecord {
  int64_t requests = 0;
  int64_t computed_tokens = 0;
  double device_seconds = 0;
};

}  // namespace canopy

#endif  // CORE_ENGINE_ENGINE_STATS_H_
