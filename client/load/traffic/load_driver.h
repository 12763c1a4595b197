// Sends the requests of a load test and counts how each of them ends.
//
//   closed loop   each of N clients sends its next request when it has the answer to its last
//   open loop     requests are sent at predefined times; latency counts from the intended time, so
//                 that neither a slow server nor a late client hides delays
//
// One thread runs the clock: it sends the requests that are due in an open loop, retries, and gives
// calls up on purpose. The sender's threads deliver answers, check and count them, and send the
// next request of a closed-loop client.
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

// The RPC that sends requests.
enum class LoadRpc { kScore, kStream };

struct DriverOptions {
  std::vector<Target> targets;  // at least one
  // The options of every connection, except for its target. The driver itself retries, so that
  // retries are counted: up to max_attempts per call, after UNAVAILABLE or a refusal that permits
  // it.
  ClientOptions client;
  std::string token;    // for `authorization: Bearer` of every call; empty = none
  int connections = 1;  // to each target; at least 1
  LoadRpc rpc = LoadRpc::kScore;
  int completion_threads = 1;  // for Score; gRPC's own threads deliver a stream's answers

  int clients = 8;                     // the clients of the closed loop
  std::shared_ptr<Arrivals> arrivals;  // for an open loop; null = the closed loop
  bool in_order = false;           // sends each request of the pool once, in order, as in a trace
  int64_t max_in_flight = 10'000;  // for an open loop; further requests wait, and are late

  absl::Duration warmup;                        // sent and checked, but not counted
  absl::Duration duration = absl::Seconds(10);  // the time of sending, without the warm-up
  uint64_t max_requests = 0;                    // the most requests in all; 0 = no limit
  absl::Duration latency_goal = absl::InfiniteDuration();

  // The fractions of the calls that are given up at a random time after they were sent, by
  // cancelling them or by cutting a connection of their own. On a stream, everything in flight on
  // it ends with them. These calls are not retried.
  double cancel_share = 0;
  double kill_share = 0;
  absl::Duration abandon_within = absl::Milliseconds(20);

  bool verify = false;  // compare answers with PooledRequest::expected
  double tolerance = 1e-4;
  uint64_t seed = 1;
};

// Thread-safe. `pool` must outlive the driver. A driver runs once.
class LoadDriver {
 public:
  LoadDriver(DriverOptions options, const RequestPool* pool);
  // Stops sending and waits for the calls in flight.
  ~LoadDriver();
  LoadDriver(const LoadDriver&) = delete;
  LoadDriver& operator=(const LoadDriver&) = delete;

  void Start();
  // Stops sending early.
  void Stop();
  // Returns true once every call has ended.
  bool WaitUntilDone(absl::Duration timeout);
  // Returns the counts since the last call of TakeInterval, or since the start.
  Interval TakeInterval();
  // Returns the result. Call it once, after the run is done.
  LoadResult Finish();

 private:
  // A part of the counts. There are several, so that answers rarely wait for each other.
  struct Lane;
  enum class Action { kRetry, kNextOfClient, kAbandon, kEndOverdue };

  // A future action.
  struct Event {
    absl::Duration at;
    Action action;
    uint64_t id;  // of the call (a retry owns `call`) or of the client
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
  // [clients]; used by the thread that sends for the client
  std::vector<std::mt19937_64> client_random_;
  std::mt19937_64 arrival_random_;               // used by the clock thread
  absl::optional<absl::Duration> next_arrival_;  // used by the clock thread
  size_t arrival_index_ = 0;                     // used by the clock thread
  absl::Duration interval_begin_;                // used by the caller of TakeInterval

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
  std::unique_ptr<CallSender> sender_;  // last, because its threads use everything above
  std::thread clock_thread_;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_LOAD_DRIVER_H_
