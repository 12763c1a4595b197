#include "core/engine/waiting_work.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/bits.h"

namespace canopy {
namespace {

constexpr double kNanosPerSecond = 1e9;

}  // namespace

void WaitingWork::Add(const Work& work, int sign, Sum* sum) {
  sum->tokens += sign * work.tokens;
  sum->forecast_nanos += sign * work.forecast_nanos;
  sum->device_bytes += sign * work.device_bytes;
}

int64_t WaitingWork::BatchSize(const Sum& all) const {
  double forward_tokens = static_cast<double>(std::min(all.tokens, max_batch_tokens_));
  if (all.device_bytes > max_batch_bytes_) {
    const double fits =
        static_cast<double>(max_batch_bytes_) / static_cast<double>(all.device_bytes);
    forward_tokens = std::min(forward_tokens, static_cast<double>(all.tokens) * fits);
  }
  return static_cast<int64_t>(forward_tokens);
}

int64_t WaitingWork::BatchSize(const std::string& share_key) const {
  const auto group = by_key_.find(share_key);
  return group == by_key_.end() ? 0 : BatchSize(group->second);
}

void WaitingWork::ChangeClass(int size_class, const Sum& sum, int sign) {
  Sum& of_class = by_class_[size_class];
  of_class.tokens += sign * sum.tokens;
  of_class.forecast_nanos += sign * sum.forecast_nanos;
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(size_class);
  occupied_ = of_class.tokens > 0 ? occupied_ | bit : occupied_ & ~bit;
}

void WaitingWork::Change(const std::string& share_key, const Work& work, int sign) {
  tokens_ += sign * work.tokens;
  if (!work.shares) {
    ChangeClass(SizeClass(work.forward_tokens), {work.tokens, work.forecast_nanos, 0}, sign);
    return;
  }
  const auto group = by_key_.try_emplace(share_key).first;
  Sum& all = group->second;
  ChangeClass(SizeClass(BatchSize(all)), all, -1);
  Add(work, sign, &all);
  if (all.tokens == 0) {
    by_key_.erase(group);
    return;
  }
  ChangeClass(SizeClass(BatchSize(all)), all, 1);
}

double WaitingWork::SecondsPerToken(int size_class, const Sum& sum, const DrainRates& rates) {
  if (const auto rate = rates.MinSecondsPerToken(size_class); rate.has_value()) {
    return *rate;
  }
  return static_cast<double>(sum.forecast_nanos) / kNanosPerSecond /
         static_cast<double>(sum.tokens);
}

double WaitingWork::MinSeconds(int64_t tokens, const DrainRates& rates) const {
  if (tokens == 0) {
    return 0;
  }
  std::array<std::pair<double, int64_t>, kNumSizeClasses> costs;  // seconds per token, and tokens
  auto* end = costs.begin();
  for (uint64_t left = occupied_; left != 0; left &= left - 1) {
    const int size_class = absl::countr_zero(left);
    const Sum& sum = by_class_[size_class];
    *end++ = {SecondsPerToken(size_class, sum, rates), sum.tokens};
  }
  std::sort(costs.begin(), end);
  double seconds = 0;
  for (const auto* cost = costs.begin(); cost != end && tokens > 0; ++cost) {
    const int64_t taken = std::min(tokens, cost->second);
    seconds += cost->first * static_cast<double>(taken);
    tokens -= taken;
  }
  return seconds;
}

double WaitingWork::MinSecondsOf(const std::string& share_key, const Work& work,
                                 const DrainRates& rates) const {
  Sum own;
  Add(work, 1, &own);
  int size_class = SizeClass(work.forward_tokens);
  if (work.shares) {
    const auto group = by_key_.find(share_key);
    Sum all = group == by_key_.end() ? Sum{} : group->second;
    Add(work, 1, &all);
    size_class = SizeClass(BatchSize(all));
  }
  return SecondsPerToken(size_class, own, rates) * static_cast<double>(work.tokens);
}

}  // namespace canopy
