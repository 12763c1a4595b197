#include "core/engine/gap_sums.h"

#include <ext/pb_ds/assoc_container.hpp>
#include <functional>
#include <utility>

namespace canopy {
namespace {

using Point = std::pair<int64_t, const void*>;

// Sums wrap around; a difference of two sums is still correct if it fits the type.
struct Sums {
  uint64_t count = 0;
  uint64_t total = 0;

  void Add(const Sums& other) {
    count += other.count;
    total += other.total;
  }
};

Sums SumsOf(const Point& point) { return {1, static_cast<uint64_t>(point.first)}; }

// Maintains the sums of each subtree in a tree of the GNU policy-based data structures, which
// prescribes these names.
template <typename NodeConstIterator, typename NodeIterator, typename Compare, typename Allocator>
class SubtreeSums {
 public:
  using metadata_type = Sums;

  // Returns the sums of the points below `bound`.
  Sums Below(int64_t bound) const {
    Sums below;
    NodeConstIterator node = node_begin();
    while (node != node_end()) {
      const Point& point = **node;
      if (point.first < bound) {
        AddSubtree(node.get_l_child(), node_end(), &below);
        below.Add(SumsOf(point));
        node = node.get_r_child();
      } else {
        node = node.get_l_child();
      }
    }
    return below;
  }

 protected:
  virtual ~SubtreeSums() = default;

  void operator()(NodeIterator node, NodeConstIterator end) const {
    Sums sums = SumsOf(**node);
    AddSubtree(node.get_l_child(), end, &sums);
    AddSubtree(node.get_r_child(), end, &sums);
    const_cast<Sums&>(node.get_metadata()) = sums;
  }

 private:
  virtual NodeConstIterator node_begin() const = 0;
  virtual NodeConstIterator node_end() const = 0;

  static void AddSubtree(NodeConstIterator node, NodeConstIterator end, Sums* sums) {
    if (node != end) {
      sums->Add(node.get_metadata());
    }
  }
};

}  // namespace

class GapSums::Points : public __gnu_pbds::tree<Point, __gnu_pbds::null_type, std::less<Point>,
                                                __gnu_pbds::rb_tree_tag, SubtreeSums> {};

GapSums::GapSums() : points_(std::make_unique<Points>()) {}
GapSums::~GapSums() = default;

void GapSums::Insert(int64_t point, const void* owner) { points_->insert({point, owner}); }

void GapSums::Erase(int64_t point, const void* owner) { points_->erase({point, owner}); }

int64_t GapSums::Below(int64_t bound) const {
  const Sums below = points_->Below(bound);
  return static_cast<int64_t>(static_cast<uint64_t>(bound) * below.count - below.total);
}

}  // namespace canopy
