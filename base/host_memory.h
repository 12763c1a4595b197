// How much memory this process can still take before the kernel ends it.
#ifndef BASE_HOST_MEMORY_H_
#define BASE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

namespace canopy {

// Bytes: the least of the machine's MemAvailable and what the limits of this process's control
// groups (version 1 or 2) leave, page cache counted as free. The largest int64_t where nothing says
// so. `root` stands before /proc and /sys; tests put a folder there.
int64_t AvailableHostBytes(const std::string& root = "");

}  // namespace canopy

#endif  // BASE_HOST_MEMORY_H_
