#include "base/memory_use.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace canopy {
namespace {

// Uses a temporary folder as the root of the file system.
class MemoryUseTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file(root_ + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  void ExpectUse(int64_t used_bytes, int64_t limit_bytes) const {
    const MemoryUse use = GroupMemory(root_).Read();
    EXPECT_EQ(use.used_bytes, used_bytes);
    EXPECT_EQ(use.limit_bytes, limit_bytes);
  }

 private:
  const std::string root_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(MemoryUseTest, WithoutGroupsThereIsNoLimit) { ExpectUse(0, 0); }

TEST_F(MemoryUseTest, ReadsTheSecondVersion) {
  Write("/proc/self/cgroup", "0::/pod/server\n");
  Write("/sys/fs/cgroup/pod/server/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/pod/server/memory.current", "700000\n");
  Write("/sys/fs/cgroup/pod/server/memory.stat",
        "anon 300000\nfile 380000\nactive_file 150000\ninactive_file 200000\n");
  ExpectUse(350'000, 1'000'000);
}

TEST_F(MemoryUseTest, TheGroupWithTheLeastRoomDecides) {
  Write("/proc/self/cgroup", "0::/pod/server\n");
  Write("/sys/fs/cgroup/pod/server/memory.max", "max\n");
  Write("/sys/fs/cgroup/pod/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/pod/memory.current", "100\n");
  Write("/sys/fs/cgroup/memory.max", "2000000\n");
  Write("/sys/fs/cgroup/memory.current", "1900000\n");
  ExpectUse(1'900'000, 2'000'000);
}

TEST_F(MemoryUseTest, ReadsTheFirstVersion) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/x\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1000\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "900\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.stat",
        "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 20\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  ExpectUse(850, 1'000);
}

// cgroup v1 represents "no limit" by a large number.
TEST_F(MemoryUseTest, AGroupOfTheFirstVersionMayHaveNoLimit) {
  Write("/proc/self/cgroup", "4:memory:/free\n");
  for (const char* group : {"free/", ""}) {
    const std::string folder = std::string("/sys/fs/cgroup/memory/") + group;
    Write(folder + "memory.limit_in_bytes", "9223372036854771712\n");
    Write(folder + "memory.usage_in_bytes", "900\n");
  }
  ExpectUse(0, 0);
}

TEST_F(MemoryUseTest, NamesOfGroupsMayHoldColons) {
  Write("/proc/self/cgroup", "0::/unit:web:1\n");
  Write("/sys/fs/cgroup/unit:web:1/memory.max", "700\n");
  Write("/sys/fs/cgroup/unit:web:1/memory.current", "30\n");
  ExpectUse(30, 700);
}

TEST_F(MemoryUseTest, AContainerMaySeeItsGroupAsTheRoot) {
  Write("/proc/self/cgroup", "4:memory:/docker/abc\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  ExpectUse(100, 500);
}

TEST(ResidentBytesTest, GrowWithWhatIsTouched) {
  const int64_t before = ResidentBytes();
  EXPECT_GT(before, 0);
  const std::string block(64 << 20, 'x');
  EXPECT_GE(ResidentBytes() - before, 32 << 20) << block.size();
}

}  // namespace
}  // namespace canopy
