// The work that waits for the device, by the size of the forwards in which it will run.
//
// A job that runs alone has forwards of its own size. Jobs with the same share key run together, so
// the size of their forwards depends on how much work waits under the key.
#ifndef CORE_ENGINE_WAITING_WORK_H_
#define CORE_ENGINE_WAITING_WORK_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/engine/drain_rates.h"

namespace canopy {

// The waiting work of one job.
struct Work {
  bool shares = false;         // the job runs together with jobs of the same share key
  int64_t tokens = 0;          // the tokens of all its forwards that were not taken; >= 1
  int64_t forward_tokens = 0;  // the tokens of its next forward if it runs alone; >= 1
  int64_t device_bytes = 0;
  // the lower bound of its time by measured costs; 0 = no costs are known
  int64_t forecast_nanos = 0;
};

// Thread-compatible.
class WaitingWork {
 public:
  // The arguments are the limits of a batch.
  WaitingWork(int64_t max_batch_tokens, int64_t max_batch_bytes)
      : max_batch_tokens_(max_batch_tokens), max_batch_bytes_(max_batch_bytes) {}

  // `share_key` is used only if work.shares.
  void Add(const std::string& share_key, const Work& work) { Change(share_key, work, 1); }
  // Undoes Add; `work` must be the value that was added.
  void Remove(const std::string& share_key, const Work& work) { Change(share_key, work, -1); }

  int64_t tokens() const { return tokens_; }

  // Returns the size under which a batch of this share key is recorded and looked up: the work that
  // waits under the key, up to the limits of a batch. The batch may be smaller, because the jobs of
  // a client keep their order and some batches are truncated. The recorded times reflect how much
  // smaller such batches are.
  int64_t BatchSize(const std::string& share_key) const;

  // Returns the lower bound of the seconds that the device takes for any `tokens` of the waiting
  // work. Work of a size without a rate or a forecast counts as free. O(size classes).
  double MinSeconds(int64_t tokens, const DrainRates& rates) const;
  // Returns the same bound for a job that would join the waiting work.
  double MinSecondsOf(const std::string& share_key, const Work& work,
                      const DrainRates& rates) const;

 private:
  struct Sum {
    int64_t tokens = 0;
    int64_t forecast_nanos = 0;
    int64_t device_bytes = 0;
  };

  static void Add(const Work& work, int sign, Sum* sum);
  static double SecondsPerToken(int size_class, const Sum& sum, const DrainRates& rates);
  int64_t BatchSize(const Sum& all) const;
  void Change(const std::string& share_key, const Work& work, int sign);
  void ChangeClass(int size_class, const Sum& sum, int sign);

  const int64_t max_batch_tokens_;
  const int64_t max_batch_bytes_;
  int64_t tokens_ = 0;
  std::array<Sum, kNumSizeClasses> by_class_;
  uint64_t occupied_ = 0;                         // one bit for each class with work
  absl::flat_hash_map<std::string, Sum> by_key_;  // the keys under which work waits
};

}  // namespace canopy

#endif  // CORE_ENGINE_WAITING_WORK_H_
