// Reads how much memory this process uses and may use, from its control group (v1 or v2).
#ifndef BASE_MEMORY_USE_H_
#define BASE_MEMORY_USE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace canopy {

struct MemoryUse {
  int64_t used_bytes = 0;
  int64_t limit_bytes = 0;  // 0 = no limit
};

// The memory limits that the kernel enforces for this process. Thread-compatible; Read is
// thread-safe.
class GroupMemory {
 public:
  // Finds the files of the process's memory group and of its parent groups. `root` is a prefix of
  // /proc and /sys for tests.
  explicit GroupMemory(const std::string& root = "");

  // Returns the use and limit of the group with the least memory left. File pages that the kernel
  // would drop first are not counted as used. Returns zeros if there is no limit.
  MemoryUse Read() const;

 private:
  struct Group {
    std::string limit_file;
    std::string usage_file;
    std::string stat_file;
    std::string dropped_prefix;  // prefix of names in the stat file that include child groups
  };

  void AddGroups(const std::string& mount, const std::string& path, bool is_v2);

  std::vector<Group> groups_;  // groups whose limit file exists
};

// Returns the bytes of this process in physical memory, or 0 if /proc cannot be read.
int64_t ResidentBytes();

// Returns a function that reads the memory use of this process. With `limit_bytes` above 0 it
// returns the use of the process alone and this limit; with 0 it returns those of its control
// group.
std::function<MemoryUse()> MemoryReader(int64_t limit_bytes);

}  // namespace canopy

#endif  // BASE_MEMORY_USE_H_
