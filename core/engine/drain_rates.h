// How long the device takes for work that waits, by what it took for forwards of like size.
//
// A token of a small forward costs many times what one of a large forward costs, so that one size
// says nothing about another. Forwards are kept apart by size class, the power of two at or below
// their tokens, and a rate is given only for classes with enough recent evidence.
#ifndef CORE_ENGINE_DRAIN_RATES_H_
#define CORE_ENGINE_DRAIN_RATES_H_

#include <array>
#include <cstdint>
#include <optional>

namespace canopy {

// floor(log2(tokens)); `tokens` is at least 1.
int SizeClass(int64_t tokens);
inline constexpr int kNumSizeClasses = 63;

// Thread-compatible.
class DrainRates {
 public:
  // A class needs this many samples, ...
  static constexpr int64_t kMinSamples = 4;
  // ... and one among this many last forwards. A rate that keeps work out would never be corrected
  // otherwise.
  static constexpr int64_t kStaleAfterForwards = 1'000;
  // From this many samples on, the mean is taken as it is: a rate below it would, under lasting
  // overload, let in more than can be answered.
  static constexpr int64_t kMinSamplesForMean = 20;

  // The device took `seconds` for a forward of `tokens` that counts as one of `size_tokens`.
  void Record(int64_t size_tokens, int64_t tokens, double seconds);

  // The seconds that a token takes at least in forwards of this size class, or without evidence of
  // it in those of the cheaper neighbour: the mean of recent forwards, less its standard error as
  // long as samples are few. Nothing without enough evidence of either.
  std::optional<double> MinSecondsPerToken(int size_class) const;

  // The mean over recent forwards of any size; nothing before the first. A hint only.
  std::optional<double> MeanSecondsPerToken() const;

 private:
  // Seconds a token, weighted so that old samples fade.
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
