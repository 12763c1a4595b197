// A multiset of points that sums the distances of all points below a bound to that bound, in
// logarithmic time.
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

  // `owner` distinguishes equal points.
  void Insert(int64_t point, const void* owner);
  void Erase(int64_t point, const void* owner);

  // Returns the sum of bound - point over all points below `bound`. The result must fit the type;
  // the sum of the points may overflow.
  int64_t Below(int64_t bound) const;

 private:
  class Points;

  std::unique_ptr<Points> points_;
};

}  // namespace canopy

#endif  // CORE_ENGINE_GAP_SUMS_H_
