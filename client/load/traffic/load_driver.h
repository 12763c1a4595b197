// Sends the requests of a load test and counts how each of them ends.
//
//   closed loop   each of N clients sends its next request when it has the answer to its last
//   open loop     requests go out at instants of their own; latency counts from the instant when a
//                 request was to be sent, so that a slow server, or a late client, hides nothing
//
// One thread keeps the clock: it sends what an open loop has due, retries, and gives calls up on
// purpose. The sender's threads bring answers, check and count them here, and send the next request
// of a closed-loop client.
#ifndef CLIENT_LOAD_TRAFFIC_LOAD_DRIVER_H_
#define CLIENT_LOAD_TRAFFIC_LOAD_DRIVER_H_

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
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "client/client_options.h"
#include "client/load/traffic/arrivals.h"
#include "client/load/traffic/call_sender.h"
#include "client/load/traffic/load_result.h"
#include "client/load/traffic/request_pool.h"
#include "client/load/traffic/targets.h"

namespace canopy::client {

// How requests are sent.
enum class LoadRpc { kScore, kStream };

struct DriverOptions {
  std::vector<Target> targets;  // At least one.
  // Of every connection but for its target; retries are the driver's own, so that they are counted:
  // max_attempts of a call, after a refusal that says so, or UNAVAILABLE.
  ClientOptions client;
  std::string token;    // `authorization: Bearer` of every call; empty = none.
  int connections = 1;  // To each target; at least 1.
  LoadRpc rpc = LoadRpc::kScore;
  int completion_threads = 1;  // Of Score; gRPC's own threads bring a stream's answers.

  int clients = 8;                     // Of the closed loop.
  std::shared_ptr<Arrivals> arrivals;  // An open loop instead; null = the closed loop.
  bool in_order = false;               // The pool's requests once each, as a trace has them.
  int64_t max_in_flight = 10'000;      // Of an open loop; what is due then waits, and is late.

  absl::Duration warmup;                        // Sent and checked, not counted.
  absl::Duration duration = absl::Seconds(10);  // Of sending, the warm-up not included.
  uint64_t max_requests = 0;                    // Sent in all; 0 = no limit.
  absl::Duration latency_goal = absl::InfiniteDuration();

  // Shares of the calls that are given up at a random instant after they were sent, by cancelling
  // them or by cutting a connection of their own; on a stream everything that is in flight there
  // goes with them. What is given up is not retried.
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
  // What has been counted; several, so that answers rarely wait for each other.
  struct Lane;
  enum class Action { kRetry, kNextOfClient, kAbandon, kEndOverdue };

  // Something to do later.
  struct Event {
    absl::Duration at;
    Action action;
    uint64_t id;  // Of the call (retry: owned through `call`) or the client.
    LoadCall* call;
    bool operator>(const Event& other) const { return at > other.at; }
  };

  absl::Duration Elapsed() const;
  bool ClaimRequest();
  std::unique_ptr<LoadCall> NewCall(int client, absl::Duration intended, std::mt19937_64* random);
  void SendNextOf(int client);
  void Send(std::unique_ptr<LoadCall> call);
  void Schedule(Event event);

  void RunClock();
  bool RunDue(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(const Event& event);
  absl::Duration NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendDueArrival();

  void End(Lane* lane, std::unique_ptr<LoadCall> call, CallEnd end);
  bool RetryLater(std::unique_ptr<LoadCall>* call, const absl::Status& status);
  void CheckAnswer(const LoadCall& call, CallEnd* end) const;
  void Count(Lane* lane, const LoadCall& call, const CallRecord& record);
  void ReportWrong(const std::string& where, absl::string_view problem);
  void Leave();

  const DriverOptions options_;
  const RequestPool& pool_;
  const absl::Duration sending_ends_;
  std::vector<double> cumulative_shares_;  // [targets]
  std::vector<std::unique_ptr<Lane>> lanes_;
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

  Mutex mutex_;
  CondVar changed_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> wrong_answers_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<CallSender> sender_;  // Its threads use all above.
  std::thread clock_thread_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_LOAD_DRIVER_H_
