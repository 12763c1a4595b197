#include "core/engine/drain_rates.h"

#include <algorithm>
#include <cmath>

#include "absl/numeric/bits.h"

namespace canopy {
namespace {

// The factor by which the weight of earlier forwards decreases with each new one.
constexpr double kMemory = 0.95;

}  // namespace

int SizeClass(int64_t tokens) {
  return absl::bit_width(static_cast<uint64_t>(std::max<int64_t>(tokens, 1))) - 1;
}

void DrainRates::Record(int64_t size_tokens, int64_t tokens, double seconds) {
  recent_tokens_ = recent_tokens_ * kMemory + static_cast<double>(tokens);
  recent_seconds_ = recent_seconds_ * kMemory + seconds;
  ++num_forwards_;
  Evidence& evidence = by_class_[SizeClass(size_tokens)];
  if (IsStale(evidence)) {
    evidence = {};
  }
  const double sample = seconds / static_cast<double>(std::max<int64_t>(tokens, 1));
  ++evidence.samples;
  evidence.last_forward = num_forwards_;
  evidence.weight = evidence.weight * kMemory + 1;
  evidence.squared_weight = evidence.squared_weight * kMemory * kMemory + 1;
  evidence.sum = evidence.sum * kMemory + sample;
  evidence.sum_of_squares = evidence.sum_of_squares * kMemory + sample * sample;
}

std::optional<double> DrainRates::MinSecondsPerToken(int size_class) const {
  std::optional<double> rate = RateOf(size_class);
  if (!rate.has_value()) {
    const std::optional<double> smaller = RateOf(size_class - 1);
    const std::optional<double> larger = RateOf(size_class + 1);
    rate = smaller.has_value() && larger.has_value() ? std::min(smaller, larger)
                                                     : (smaller.has_value() ? smaller : larger);
  }
  return rate;
}

std::optional<double> DrainRates::RateOf(int size_class) const {
  if (size_class < 0 || size_class >= kNumSizeClasses) {
    return std::nullopt;
  }
  const Evidence& evidence = by_class_[size_class];
  if (evidence.samples < kMinSamples || IsStale(evidence)) {
    return std::nullopt;
  }
  const double mean = evidence.sum / evidence.weight;
  if (evidence.samples >= kMinSamplesForMean) {
    return mean;
  }
  const double variance = std::max(evidence.sum_of_squares / evidence.weight - mean * mean, 0.0);
  const double samples = evidence.weight * evidence.weight / evidence.squared_weight;
  return std::max(mean - std::sqrt(variance / samples), 0.0);
}

std::optional<double> DrainRates::MeanSecondsPerToken() const {
  if (recent_seconds_ <= 0) {
    return std::nullopt;
  }
  return recent_seconds_ / recent_tokens_;
}

}  // namespace canopy
