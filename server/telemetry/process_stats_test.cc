#include "server/telemetry/process_stats.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "gtest/gtest.h"

namespace canopy::server {
namespace {

TEST(ProcessStatsTest, CountsDescriptors) {
  const int64_t before = ReadProcessStats().open_fds;
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(ReadProcessStats().open_fds, before + 1);
  close(fd);
  EXPECT_EQ(ReadProcessStats().open_fds, before);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ReadProcessStats().max_fds, static_cast<int64_t>(limit.rlim_cur));
}

TEST(ProcessStatsTest, SeesMemoryThatIsTouchedAndTimeThatIsSpent) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const ProcessStats before = ReadProcessStats();
  EXPECT_GE(before.threads, 1);
  const std::vector<char> touched(kBytes, 'x');
  const ProcessStats after = ReadProcessStats();
  EXPECT_GE(after.resident_bytes, before.resident_bytes + kBytes * 9 / 10);
  EXPECT_GT(after.cpu_seconds, before.cpu_seconds);
  EXPECT_EQ(touched.back(), 'x');
}

TEST(ProcessStatsTest, StartedBeforeNow) {
  const ProcessStats stats = ReadProcessStats();
  const auto now = static_cast<double>(std::time(nullptr));
  // The kernel counts in hundredths of a second, and its own start in whole seconds.
  EXPECT_LE(stats.start_time_seconds, now + 2);
  EXPECT_GT(stats.start_time_seconds, now - 3'600);
}

}  // namespace
}  // namespace canopy::server
