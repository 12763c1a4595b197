#include "client/load/traffic/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/numeric/bits.h"

namespace canopy::client {
namespace {

// The number of leading bits of a latency that determine its bucket.
constexpr int kKeptBits = 8;
constexpr int64_t kHalf = int64_t{1} << (kKeptBits - 1);

int ShiftOf(int64_t ns) {
  return std::max(0, static_cast<int>(absl::bit_width(static_cast<uint64_t>(ns))) - kKeptBits);
}

// Each value below 2 * kHalf has its own bucket. Above that, the values from one power of two to
// the next are divided evenly among kHalf buckets.
size_t BucketOf(int64_t ns) {
  const int shift = ShiftOf(ns);
  return static_cast<size_t>(shift * kHalf + (ns >> shift));
}

int64_t MiddleOf(size_t bucket) {
  const auto index = static_cast<int64_t>(bucket);
  if (index < 2 * kHalf) {
    return index;
  }
  const int64_t shift = index / kHalf - 1;
  const int64_t width = int64_t{1} << shift;
  return ((index - shift * kHalf) << shift) + width / 2;
}

}  // namespace

void LatencyHistogram::Record(absl::Duration latency) {
  const int64_t ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(latency));
  const size_t bucket = BucketOf(ns);
  if (bucket >= buckets_.size()) {
    buckets_.resize(bucket + 1);
  }
  ++buckets_[bucket];
  min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  sum_ += absl::Nanoseconds(ns);
  ++count_;
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  if (other.count_ == 0) {
    return;
  }
  buckets_.resize(std::max(buckets_.size(), other.buckets_.size()));
  for (size_t i = 0; i < other.buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
  sum_ += other.sum_;
  count_ += other.count_;
}

absl::Duration LatencyHistogram::mean() const {
  return count_ == 0 ? absl::ZeroDuration() : sum_ / count_;
}

absl::Duration LatencyHistogram::Quantile(double q) const {
  const auto rank = std::clamp<int64_t>(
      static_cast<int64_t>(std::ceil(q * static_cast<double>(count_))), 1, count_ + 1);
  if (rank >= count_) {
    return max();
  }
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) {
      return absl::Nanoseconds(std::clamp(MiddleOf(bucket), min_ns_, max_ns_));
    }
  }
  return max();
}

}  // namespace canopy::client
