// Estimates how long the device takes for waiting work, from the times of forwards of similar size.
//
// A token of a small forward costs many times as much as a token of a large forward, so a rate of
// one size says nothing about another size. Forwards are therefore recorded by size class, the
// power of two at or below their tokens. A class has a rate only if it has enough recent samples.
#ifndef CORE_ENGINE_DRAIN_RATES_H_
#define CORE_ENGINE_DRAIN_RATES_H_

#include <array>
#include <cstdint>
#include <optional>

namespace canopy {

// Returns floor(log2(tokens)); `tokens` is at least 1.
int SizeClass(int64_t tokens);
inline constexpr int kNumSizeClasses = 63;

// Thread-compatible.
class DrainRates {
 public:
  // The number of samples that a class needs before it has a rate.
  static constexpr int64_t kMinSamples = 4;
  // A class without a sample among this many recent forwards has no rate. Otherwise a rate that
  // keeps all work out would never be corrected.
  static constexpr int64_t kStaleAfterForwards = 1'000;
  // The number of samples from which the mean is used without subtracting its standard error. A
  // lower rate would, under lasting overload, admit more work than can be answered.
  static constexpr int64_t kMinSamplesForMean = 20;

  // Records that the device took `seconds` for a forward of `tokens` tokens in the class of
  // `size_tokens`.
  void Record(int64_t size_tokens, int64_t tokens, double seconds);

  // Returns the lower bound of the seconds per token in forwards of this size class: the mean of
  // recent forwards, less its standard error while there are few samples. Uses the cheaper
  // neighbouring class if this class has too few samples; nullopt if that has too few as well.
  std::optional<double> MinSecondsPerToken(int size_class) const;

  // Returns the mean over recent forwards of any size; nullopt before the first one. A hint only.
  std::optional<double> MeanSecondsPerToken() const;

 private:
  // The seconds per token of one class. Old samples have less weight.
  struct Evidence {
    int64_t samples = 0;
    int64_t last_forward = 0;
    double weight = 0;
    double squared_weight = 0;
    double sum = 0;
    double sum_of_squares = 0;
  };

  bool IsStale(const Evidence& evidence) const {
    return num_forwards_ - evidence.last_forward >= kStaleAfterForwards;
  }
  std::optional<double> RateOf(int size_class) const;

  std::array<Evidence, kNumSizeClasses> by_class_;
  int64_t num_forwards_ = 0;
  double recent_tokens_ = 0;
  double recent_seconds_ = 0;
};

}  // namespace canopy

#endif  // CORE_ENGINE_DRAIN_RATES_H_
