#include "server/telemetry/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace canopy::server {
namespace {

// The fields of /proc/self/stat, counted from the one after the name in parentheses.
constexpr size_t kNumThreadsField = 17;
constexpr size_t kStartTicksField = 19;
constexpr size_t kResidentPagesField = 21;

int64_t CountOpenFds() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) {
    return 0;
  }
  int64_t count = 0;
  // No other thread reads this stream.
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe)
    count += entry->d_name[0] == '.' ? 0 : 1;
  }
  closedir(folder);
  return count - 1;  // without the descriptor of this stream
}

int64_t MaxFds() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 0;
  }
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<int64_t>::max()
                                         : static_cast<int64_t>(limit.rlim_cur);
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Returns when the machine started, in seconds since the Unix epoch.
int64_t BootTimeSeconds() {
  const std::string stat = ReadFile("/proc/stat");
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    int64_t seconds = 0;
    if (line.substr(0, 6) == "btime " && absl::SimpleAtoi(line.substr(6), &seconds)) {
      return seconds;
    }
  }
  return 0;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  stats.open_fds = CountOpenFds();
  stats.max_fds = MaxFds();
  stats.cpu_seconds = CpuSeconds();
  const std::string text = ReadFile("/proc/self/stat");
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) {
    return stats;
  }
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(name_end + 2), ' ');
  int64_t threads = 0;
  int64_t pages = 0;
  int64_t start_ticks = 0;
  if (fields.size() > kResidentPagesField && absl::SimpleAtoi(fields[kNumThreadsField], &threads) &&
      absl::SimpleAtoi(fields[kStartTicksField], &start_ticks) &&
      absl::SimpleAtoi(fields[kResidentPagesField], &pages)) {
    stats.threads = threads;
    stats.resident_bytes = pages * sysconf(_SC_PAGESIZE);
    static const int64_t boot_time = BootTimeSeconds();
    stats.start_time_seconds =
        static_cast<double>(boot_time) +
        static_cast<double>(start_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return stats;
}

}  // namespace canopy::server
