// Client processes that are killed at random instants while a load test runs, and replaced: what a
// server sees when its clients' hosts die. They are canopy_load itself, run again.
#ifndef CLIENT_LOAD_TRAFFIC_VICTIMS_H_
#define CLIENT_LOAD_TRAFFIC_VICTIMS_H_

#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace canopy::client {

struct VictimOptions {
  std::string program;  // Path.
  // Of the program; each process gets `--seed=N` behind, and every second one `--rpc=stream`.
  std::vector<std::string> arguments;
  int count = 0;        // That live at a time.
  absl::Duration life;  // The longest; each one's is drawn.
  uint64_t seed = 1;
};

struct VictimCounts {
  uint64_t killed = 0;
  // Those that ended by themselves or never began, which none should; what the last of them said.
  uint64_t ended = 0;
  int last_exit_code = 0;  // -1 = it could not be started, or died of another signal.
};

// Thread-safe.
class Victims {
 public:
  // Starts them.
  explicit Victims(VictimOptions options);
  // Kills what is left.
  ~Victims();
  Victims(const Victims&) = delete;
  Victims& operator=(const Victims&) = delete;

  // Kills what is left, and says what became of all.
  VictimCounts Stop();

 private:
  struct Victim {
    pid_t process = -1;  // -1 = it could not be started
    absl::Time dies_at;
  };

  void Run();
  Victim StartOne();
  void EndOne(const Victim& victim);

  const VictimOptions options_;
  std::mt19937_64 random_;  // Of the thread, as is counts_ until it has ended.
  uint64_t num_started_ = 0;
  VictimCounts counts_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_VICTIMS_H_
