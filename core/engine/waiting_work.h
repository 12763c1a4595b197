// The work that waits for the device, by the size of the forwards that it will run in.
//
// A job that runs alone makes forwards of its own size. Jobs of one share key run together: how
// large their forwards are depends on how much waits under the key.
#ifndef CORE_ENGINE_WAITING_WORK_H_
#define CORE_ENGINE_WAITING_WORK_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/engine/drain_rates.h"

namespace canopy {

// What one job has waiting.
struct Work {
  bool shares = false;         // whether it runs together with jobs of its share key
  int64_t tokens = 0;          // in all its forwards that were not taken; >= 1
  int64_t forward_tokens = 0;  // in its next forward, where it runs alone; >= 1
  int64_t device_bytes = 0;
  int64_t forecast_nanos = 0;  // the least time by costs that were measured before; 0 = none were
};

// Thread-compatible.
class WaitingWork {
 public:
  // The limits of a batch.
  WaitingWork(int64_t max_batch_tokens, int64_t max_batch_bytes)
      : max_batch_tokens_(max_batch_tokens), max_batch_bytes_(max_batch_bytes) {}

  // `share_key` is read only where the work shares.
  void Add(const std::string& share_key, const Work& work) { Change(share_key, work, 1); }
  // Undoes Add: `work` must be what was added.
  void Remove(const std::string& share_key, const Work& work) { Change(share_key, work, -1); }

  int64_t tokens() const { return tokens_; }

  // The size under which a batch of this share key is recorded and looked up: what waits under the
  // key, up to the limits of a batch. The batch itself may be smaller, since a client's jobs keep
  // their order and some batches are cut; how much smaller shows in what such batches take.
  int64_t BatchSize(const std::string& share_key) const;

  // The seconds that the device takes at least for any `tokens` of what waits. Work of sizes
  // without a rate or a forecast counts as free. O(size classes).
  double MinSeconds(int64_t tokens, const DrainRates& rates) const;
  // The same for a job that would join what waits.
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
  uint64_t occupied_ = 0;                         // a bit for each class with work
  absl::flat_hash_map<std::string, Sum> by_key_;  // of keys under which something waits
};

}  // namespace canopy

#endif  // CORE_ENGINE_WAITING_WORK_H_
