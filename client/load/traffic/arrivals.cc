#include "client/load/traffic/arrivals.h"

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace canopy::client {
namespace {

class Constant final : public Arrivals {
 public:
  explicit Constant(double rate) : rate_(rate) {}

  absl::optional<absl::Duration> Next() override {
    // The product avoids the drift of a sum of gaps.
    return absl::Seconds(static_cast<double>(index_++) / rate_);
  }

 private:
  const double rate_;
  int64_t index_ = 0;
};

class Poisson final : public Arrivals {
 public:
  Poisson(double rate, uint64_t seed) : rate_(rate), random_(seed) {}

  absl::optional<absl::Duration> Next() override {
    // The inverse of the exponential distribution function gives equal schedules for equal seeds
    // with every standard library.
    const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;
    seconds_ -= std::log1p(-uniform) / rate_;
    return absl::Seconds(seconds_);
  }

 private:
  const double rate_;
  std::mt19937_64 random_;
  double seconds_ = 0;
};

class Steps final : public Arrivals {
 public:
  explicit Steps(std::vector<RateStep> steps) : steps_(std::move(steps)) {}

  absl::optional<absl::Duration> Next() override {
    for (; step_ < steps_.size(); ++step_, index_ = 0) {
      const RateStep& step = steps_[step_];
      if (step.rate > 0) {
        const absl::Duration offset = absl::Seconds(static_cast<double>(index_) / step.rate);
        if (offset < step.duration) {
          ++index_;
          return start_ + offset;
        }
      }
      start_ += step.duration;
    }
    return absl::nullopt;
  }

 private:
  const std::vector<RateStep> steps_;
  size_t step_ = 0;
  int64_t index_ = 0;  // within the step
  absl::Duration start_;
};

class Trace final : public Arrivals {
 public:
  explicit Trace(std::vector<absl::Duration> instants) : instants_(std::move(instants)) {}

  absl::optional<absl::Duration> Next() override {
    if (index_ == instants_.size()) {
      return absl::nullopt;
    }
    return instants_[index_++];
  }

 private:
  const std::vector<absl::Duration> instants_;
  size_t index_ = 0;
};

}  // namespace

std::unique_ptr<Arrivals> ConstantArrivals(double rate) { return std::make_unique<Constant>(rate); }

std::unique_ptr<Arrivals> PoissonArrivals(double rate, uint64_t seed) {
  return std::make_unique<Poisson>(rate, seed);
}

std::unique_ptr<Arrivals> StepArrivals(std::vector<RateStep> steps) {
  return std::make_unique<Steps>(std::move(steps));
}

std::unique_ptr<Arrivals> TraceArrivals(std::vector<absl::Duration> instants) {
  return std::make_unique<Trace>(std::move(instants));
}

absl::StatusOr<std::vector<RateStep>> ParseRateSteps(absl::string_view text) {
  std::vector<RateStep> steps;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(part, absl::MaxSplits('x', 1));
    RateStep step;
    if (!absl::SimpleAtod(sides.first, &step.rate) || !(step.rate >= 0) || std::isinf(step.rate) ||
        !absl::ParseDuration(sides.second, &step.duration) ||
        step.duration <= absl::ZeroDuration() || step.duration == absl::InfiniteDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("step '", part, "' is not RATExDURATION, as 100x10s"));
    }
    steps.push_back(step);
  }
  return steps;
}

absl::Duration TotalDuration(const std::vector<RateStep>& steps) {
  absl::Duration total;
  for (const RateStep& step : steps) {
    total += step.duration;
  }
  return total;
}

}  // namespace canopy::client
