#include "base/host_memory.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace canopy {
namespace {

// Uses a temporary folder as the root of the file system.
class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() : root_(::testing::TempDir() + "/host_memory_XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~HostMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t Available() const { return AvailableHostBytes(root_); }

  std::string root_;
};

TEST_F(HostMemoryTest, WithoutAnyFileThereIsNoLimit) {
  EXPECT_EQ(Available(), std::numeric_limits<int64_t>::max());
}

TEST_F(HostMemoryTest, TheMachinesOwnNumberIsInKilobytes) {
  Write("/proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:     500 kB\n");
  EXPECT_EQ(Available(), 500 * 1024);
}

TEST_F(HostMemoryTest, AGroupMayLeaveLess) {
  Write("/proc/meminfo", "MemAvailable: 500 kB\n");
  Write("/proc/self/cgroup", "0::/canopy\n");
  Write("/sys/fs/cgroup/canopy/memory.max", "100000\n");
  Write("/sys/fs/cgroup/canopy/memory.current", "60000\n");
  EXPECT_EQ(Available(), 40'000);
  Write("/sys/fs/cgroup/canopy/memory.current", "120000\n");
  EXPECT_EQ(Available(), 0);
  Write("/sys/fs/cgroup/canopy/memory.max", "max\n");
  EXPECT_EQ(Available(), 500 * 1024);
}

TEST(HostMemory, OfThisMachineIsSomething) { EXPECT_GT(AvailableHostBytes(), 0); }

}  // namespace
}  // namespace canopy
