// Client processes that are killed at random instants while a load test runs, and replaced: what a
// server sees when its clients' hosts die. They are canopy_load itself, run again.
#ifndef CLIENT_LOAD_TRAFFIC_KILLED_CLIENTS_H_
#define CLIENT_LOAD_TRAFFIC_KILLED_CLIENTS_H_

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

struct KilledClientOptions {
  std::string program;  // Path.
  // Of the program; each process gets `--seed=N` behind, and every second one `--rpc=stream`.
  std::vector<std::string> arguments;
  int count = 0;        // That live at a time.
  absl::Duration life;  // The longest; each one's is drawn.
  uint64_t seed = 1;
};

struct KilledClientCounts {
  uint64_t killed = 0;
  // Those that ended by themselves or never began, which none should; what the last of them said.
  uint64_t ended = 0;
  int last_exit_code = 0;  // -1 = it could not be started, or died of another signal.
};

// Thread-safe.
class KilledClients {
 public:
  // Starts them.
  explicit KilledClients(KilledClientOptions options);
  // Kills what is left.
  ~KilledClients();
  KilledClients(const KilledClients&) = delete;
  KilledClients& operator=(const KilledClients&) = delete;

  // Kills what is left, and says what became of all.
  KilledClientCounts Stop();

 private:
  struct Process {
    pid_t pid = -1;  // -1 = it could not be started
    absl::Time dies_at;
  };

  void Run();
  Process StartOne();
  void EndOne(const Process& process);

  const KilledClientOptions options_;
  std::mt19937_64 random_;  // Of the thread, as is counts_ until it has ended.
  uint64_t num_started_ = 0;
  KilledClientCounts counts_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_KILLED_CLIENTS_H_
