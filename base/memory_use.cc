#include "base/memory_use.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace canopy {
namespace {

// cgroup v1 represents "no limit" by the largest multiple of the page size.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the number in a file, or 0 if there is none, if it is "max", or if it is v1's "no limit".
int64_t ReadNumber(const std::string& path) {
  int64_t number = 0;
  return absl::SimpleAtoi(ReadFile(path), &number) && number < kNoLimit ? number : 0;
}

// Returns the value of `name` in text whose lines are a name and a value.
int64_t StatValue(absl::string_view stat, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    int64_t value = 0;
    if (absl::StartsWith(line, absl::StrCat(name, " ")) &&
        absl::SimpleAtoi(line.substr(name.size() + 1), &value)) {
      return value;
    }
  }
  return 0;
}

}  // namespace

GroupMemory::GroupMemory(const std::string& root) {
  // Lines have the form `4:memory:/pod/container`, and `0::/pod/container` in v2.
  for (const absl::string_view line :
       absl::StrSplit(ReadFile(absl::StrCat(root, "/proc/self/cgroup")), '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const std::string path(fields[2]);
    if (fields[1].empty()) {
      AddGroups(absl::StrCat(root, "/sys/fs/cgroup"), path, /*is_v2=*/true);
    }
    for (const absl::string_view controller : absl::StrSplit(fields[1], ',')) {
      if (controller == "memory") {
        AddGroups(absl::StrCat(root, "/sys/fs/cgroup/memory"), path, /*is_v2=*/false);
      }
    }
  }
}

// In a container, the mount's root may be its own group although /proc gives the path on the host.
// Groups whose files do not exist are therefore skipped.
void GroupMemory::AddGroups(const std::string& mount, const std::string& path, bool is_v2) {
  std::string below = path == "/" ? "" : path;
  while (true) {
    const std::string folder = absl::StrCat(mount, below, "/");
    Group group = {absl::StrCat(folder, is_v2 ? "memory.max" : "memory.limit_in_bytes"),
                   absl::StrCat(folder, is_v2 ? "memory.current" : "memory.usage_in_bytes"),
                   absl::StrCat(folder, "memory.stat"), is_v2 ? "" : "total_"};
    if (access(group.limit_file.c_str(), R_OK) == 0) {
      groups_.push_back(std::move(group));
    }
    if (below.empty()) {
      return;
    }
    below.resize(below.rfind('/'));
  }
}

MemoryUse GroupMemory::Read() const {
  MemoryUse tightest;
  for (const Group& group : groups_) {
    // The limit is read each time, because it may change while the process runs.
    const int64_t limit = ReadNumber(group.limit_file);
    if (limit == 0) {
      continue;
    }
    const std::string stat = ReadFile(group.stat_file);
    const int64_t used = ReadNumber(group.usage_file) -
                         StatValue(stat, absl::StrCat(group.dropped_prefix, "inactive_file")) -
                         StatValue(stat, absl::StrCat(group.dropped_prefix, "active_file"));
    if (tightest.limit_bytes == 0 || limit - used < tightest.limit_bytes - tightest.used_bytes) {
      tightest = {used, limit};
    }
  }
  return tightest;
}

int64_t ResidentBytes() {
  const std::vector<std::string> pages = absl::StrSplit(ReadFile("/proc/self/statm"), ' ');
  int64_t resident = 0;
  return pages.size() > 1 && absl::SimpleAtoi(pages[1], &resident)
             ? resident * sysconf(_SC_PAGESIZE)
             : 0;
}

std::function<MemoryUse()> MemoryReader(int64_t limit_bytes) {
  if (limit_bytes > 0) {
    return [limit_bytes] { return MemoryUse{ResidentBytes(), limit_bytes}; };
  }
  return [group = GroupMemory()] { return group.Read(); };
}

}  // namespace canopy
