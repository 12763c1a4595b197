// Sends the requests of a load test and counts how each of them ends.
//
//   closed loop   each of N clients sends its next request when it has the answer to its last
//   open loop     requests go out at instants of their own; latency counts from the instant when a
//                 request was to be sent, so that a slow server, or a late client, hides nothing
//
// One thread keeps the clock: it sends what an open loop has due, retries, and gives calls up on
// purpose. Completion threads take answers, check and count them, and send the next request of a
// closed-loop client.
#ifndef CLIENT_LOAD_LOAD_DRIVER_H_
#define CLIENT_LOAD_LOAD_DRIVER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client_options.h"
#include "client/load/arrivals.h"
#include "client/load/load_result.h"
#include "client/load/request_pool.h"
#include "client/load/targets.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"

namespace canopy::client {

struct DriverOptions {
  std::vector<Target> targets;  // At least one.
  // Of every connection but for its target; retries are the driver's own, so that they are counted:
  // max_attempts of a call, after a refusal that says so, or UNAVAILABLE.
  ClientOptions client;
  std::string token;    // `authorization: Bearer` of every call; empty = none.
  int connections = 1;  // To each target; at least 1.
  int completion_threads = 1;

  int clients = 8;                     // Of the closed loop.
  std::shared_ptr<Arrivals> arrivals;  // An open loop instead; null = the closed loop.
  bool in_order = false;               // The pool's requests once each, as a trace has them.
  int64_t max_in_flight = 10'000;      // Of an open loop; what is due then waits, and is late.

  absl::Duration warmup;                        // Sent and checked, not counted.
  absl::Duration duration = absl::Seconds(10);  // Of sending, the warm-up not included.
  uint64_t max_requests = 0;                    // Sent in all; 0 = no limit.
  absl::Duration latency_goal = absl::InfiniteDuration();

  // Shares of the calls that are given up at a random instant after they were sent, by cancelling
  // them or by cutting a connection of their own. Such calls are not retried.
  double cancel_share = 0;
  double kill_share = 0;
  absl::Duration abandon_within = absl::Milliseconds(20);

  bool verify = false;  // Compare answers with PooledRequest::expected.
  double tolerance = 1e-4;
  uint64_t seed = 1;
};

// Thread-safe. `pool` must outlive it. One run each.
class LoadDriver {
 public:
  LoadDriver(DriverOptions options, const RequestPool* pool);
  // Stops sending, and waits for the calls in flight.
  ~LoadDriver();
  LoadDriver(const LoadDriver&) = delete;
  LoadDriver& operator=(const LoadDriver&) = delete;

  void Start();
  // Ends sending early.
  void Stop();
  // True once every call has ended.
  bool WaitUntilDone(absl::Duration timeout);
  // What happened since the last call of it, or since the start.
  Interval TakeInterval();
  // Once, after the run is done.
  LoadResult Finish();

 private:
  struct Call;
  struct Worker;
  enum class Action { kRetry, kNextOfClient, kAbandon };

  // Something to do later.
  struct Event {
    absl::Duration at;
    Action action;
    uint64_t id;  // Of the call (retry: owned through `call`) or the client.
    Call* call;
    bool operator>(const Event& other) const { return at > other.at; }
  };

  absl::Duration Elapsed() const;
  bool ClaimRequest();
  std::unique_ptr<Call> NewCall(int client, absl::Duration intended, std::mt19937_64* random);
  void SendNextOf(int client);
  void Send(std::unique_ptr<Call> owned);
  grpc::GenericStub* OpenFor(Call* call);
  void PlanAbandoning(Call* call);
  void Abandon(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Schedule(Event event);

  void KeepClock();
  bool RunDue(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendDueArrival();

  void Complete(Worker* worker);
  void End(Worker* worker, std::unique_ptr<Call> call);
  bool RetryLater(std::unique_ptr<Call>* call, const absl::Status& status);
  void CheckAnswer(Worker* worker, Call* call, CallRecord* record);
  void Count(Worker* worker, const Call& call, const CallRecord& record);
  void ReportWrong(const Call& call, absl::string_view problem);
  void Leave();

  const DriverOptions options_;
  const RequestPool& pool_;
  const absl::Duration sending_ends_;
  std::vector<double> cumulative_shares_;                               // [targets]
  std::vector<std::vector<std::unique_ptr<grpc::GenericStub>>> stubs_;  // [targets][connections]
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::mt19937_64> client_random_;   // [clients]; used by whoever sends for the client
  std::mt19937_64 arrival_random_;               // the clock thread's
  absl::optional<absl::Duration> next_arrival_;  // the clock thread's
  size_t arrival_index_ = 0;                     // likewise
  absl::Duration interval_begin_;                // of whoever takes intervals

  std::chrono::steady_clock::time_point start_;
  std::atomic<uint64_t> next_id_{0};
  std::atomic<uint64_t> started_{0};
  std::atomic<uint64_t> started_candidates_{0};
  std::atomic<int64_t> in_flight_{0};
  std::atomic<bool> sending_over_{false};

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Call*> abandonable_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> wrong_answers_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread clock_thread_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_LOAD_DRIVER_H_
