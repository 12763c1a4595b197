// Client processes that are killed at random times during a load test and replaced, as if the hosts
// of clients failed. The processes run canopy_load itself.
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
  std::string program;  // the path of the program
  // The arguments of the program. Each process also gets `--seed=N`, and every second one
  // `--rpc=stream`.
  std::vector<std::string> arguments;
  int count = 0;        // the number of processes at a time
  absl::Duration life;  // the longest life of a process; each one's is random
  uint64_t seed = 1;
};

struct KilledClientCounts {
  uint64_t killed = 0;
  // Processes that ended by themselves or could not be started, which is an error.
  uint64_t ended = 0;
  // of the last such process; -1 = it could not be started, or another signal ended it
  int last_exit_code = 0;
};

// Thread-safe.
class KilledClients {
 public:
  // Starts the processes.
  explicit KilledClients(KilledClientOptions options);
  // Kills the remaining processes.
  ~KilledClients();
  KilledClients(const KilledClients&) = delete;
  KilledClients& operator=(const KilledClients&) = delete;

  // Kills the remaining processes and returns the counts.
  KilledClientCounts Stop();

 private:
  struct Process {
    pid_t pid = -1;  // -1 = the process could not be started
    absl::Time dies_at;
  };

  void Run();
  Process StartOne();
  void EndOne(const Process& process);

  const KilledClientOptions options_;
  std::mt19937_64 random_;  // used by the thread, like counts_, until it has ended
  uint64_t num_started_ = 0;
  KilledClientCounts counts_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_KILLED_CLIENTS_H_
