#include "base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/memory_use.h"

namespace canopy {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kBytesPerKilobyte = 1024;

// Returns the bytes that are available to all processes of the machine.
int64_t MachineBytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "MemAvailable:") {
      return kilobytes * kBytesPerKilobyte;
    }
  }
  return kUnlimited;
}

}  // namespace

int64_t AvailableHostBytes(const std::string& root) {
  const MemoryUse group = GroupMemory(root).Read();
  const int64_t left = group.limit_bytes == 0
                           ? kUnlimited
                           : std::max<int64_t>(0, group.limit_bytes - group.used_bytes);
  return std::min(MachineBytes(root), left);
}

}  // namespace canopy
