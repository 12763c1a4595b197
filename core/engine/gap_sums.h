// A multiset of points that answers how far all points below a bound lie below it, in logarithmic
// time.
#ifndef CORE_ENGINE_GAP_SUMS_H_
#define CORE_ENGINE_GAP_SUMS_H_

#include <cstdint>
#include <memory>

namespace canopy {

// Thread-compatible.
class GapSums {
 public:
  GapSums();
  ~GapSums();

  // `owner` tells equal points apart.
  void Insert(int64_t point, const void* owner);
  void Erase(int64_t point, const void* owner);

  // The sum of bound - point over all points below `bound`. It must fit the type; what the points
  // add up to need not.
  int64_t Below(int64_t bound) const;

 private:
  class Points;

  std::unique_ptr<Points> points_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_GAP_SUMS_H_
