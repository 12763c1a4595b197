// How much memory this process may use, and does: what its control group says, v2 or v1.
#ifndef BASE_MEMORY_USE_H_
#define BASE_MEMORY_USE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace canopy {

struct MemoryUse {
  int64_t used_bytes = 0;
  int64_t limit_bytes = 0;  // 0 = none
};

// The limits that the kernel holds this process to. Thread-compatible; Read is thread-safe.
class GroupMemory {
 public:
  // Looks for the files of the process's memory group and of those above it. `root` stands before
  // /proc and /sys, for tests.
  explicit GroupMemory(const std::string& root = "");

  // Of the group with the least room left; file pages that the kernel would drop before it runs out
  // are not counted as used. Without a limit all zero.
  MemoryUse Read() const;

 private:
  struct Group {
    std::string limit_file;
    std::string usage_file;
    std::string stat_file;
    std::string dropped_prefix;  // of the stat's names that cover the groups below, too
  };

  void AddGroups(const std::string& mount, const std::string& path, bool is_v2);

  std::vector<Group> groups_;  // of which a limit could be read
};

// Bytes of this process in memory; 0 when /proc does not say.
int64_t ResidentBytes();

// Returns what reads the memory use of this process: of the process alone with a limit of
// `limit_bytes`, or of its control group if that is 0.
std::function<MemoryUse()> MemoryReader(int64_t limit_bytes);

}  // namespace canopy

#endif  // BASE_MEMORY_USE_H_
