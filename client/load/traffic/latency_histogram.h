// Counts latencies in buckets whose width grows with their value, so that every quantile has the
// same relative error from a nanosecond to hours.
//
//   bucket width   1 ns below 256 ns, 2 ns below 512 ns, 4 ns below 1,024 ns, ...
#ifndef CLIENT_LOAD_TRAFFIC_LATENCY_HISTOGRAM_H_
#define CLIENT_LOAD_TRAFFIC_LATENCY_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace canopy::client {

// Thread-compatible. Takes memory for the buckets up to the largest latency: 20 KiB for 10 s.
class LatencyHistogram {
 public:
  // The largest relative error of a quantile. The smallest and the largest latency are exact.
  static constexpr double kMaxRelativeError = 1.0 / 256;

  // A negative latency, which the clocks of two threads can cause, counts as zero.
  void Record(absl::Duration latency);
  void Merge(const LatencyHistogram& other);

  int64_t count() const { return count_; }
  // Zero if nothing was recorded.
  absl::Duration min() const { return absl::Nanoseconds(min_ns_); }
  absl::Duration max() const { return absl::Nanoseconds(max_ns_); }
  absl::Duration mean() const;

  // Returns the smallest recorded latency that at least a fraction `q` in [0, 1] of all latencies
  // does not exceed; zero if nothing was recorded.
  absl::Duration Quantile(double q) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  int64_t min_ns_ = 0;
  int64_t max_ns_ = 0;
  absl::Duration sum_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_LATENCY_HISTOGRAM_H_
