// Finds out how much more memory this process can use before the kernel kills it.
#ifndef BASE_HOST_MEMORY_H_
#define BASE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

namespace canopy {

// Returns the smaller of the machine's MemAvailable and the bytes left under the limits of this
// process's control groups (version 1 or 2); page cache counts as free. Returns the largest int64_t
// if neither can be read. `root` is a prefix of /proc and /sys for tests.
int64_t AvailableHostBytes(const std::string& root = "");

}  // namespace canopy

#endif  // BASE_HOST_MEMORY_H_
