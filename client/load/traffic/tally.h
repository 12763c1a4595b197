// Counts the calls of a load test by outcome. Each call is counted once.
#ifndef CLIENT_LOAD_TRAFFIC_TALLY_H_
#define CLIENT_LOAD_TRAFFIC_TALLY_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "canopy/v1/types.pb.h"
#include "client/load/traffic/latency_histogram.h"
#include "client/load/traffic/request_pool.h"

namespace canopy::client {

// How a call ended.
enum class CallOutcome {
  kAnswered,
  kRefused,    // any error of the server or the connection, after all retries
  kCancelled,  // by this client, on purpose
  kKilled,     // its connection was cut by this client, on purpose
  kWrong,      // the answer was wrong
};
inline constexpr int kNumCallOutcomes = 5;
absl::string_view CallOutcomeName(CallOutcome outcome);

// One call that has ended.
struct CallRecord {
  const PooledRequest* request = nullptr;
  CallOutcome outcome = CallOutcome::kAnswered;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;           // of a refusal: that of google.rpc.ErrorInfo
  absl::Duration latency;       // from the intended time of sending to the end
  absl::Duration service_time;  // from the last attempt's sending to the end
  absl::Duration lateness;      // from the intended time to the first sending
  int attempts = 1;
  const v1::Stats* stats = nullptr;  // of an answer
};

// The stages of an answered call: those that the server reports, its total, and the rest of the
// service time, which is spent in the client, gRPC and the network.
enum class Stage { kDecode, kQueue, kPlan, kDevice, kEncodeQueue, kEncode, kServer, kOutside };
inline constexpr int kNumStages = 8;
absl::string_view StageName(Stage stage);

// Thread-compatible.
struct Tally {
  std::array<uint64_t, kNumCallOutcomes> calls{};       // by outcome
  std::array<uint64_t, kNumCallOutcomes> candidates{};  // the candidates in these calls
  uint64_t retries = 0;                                 // the attempts after the first of each call
  // The counts of answered calls:
  uint64_t within_goal = 0;
  uint64_t questions = 0;
  uint64_t input_tokens = 0;
  uint64_t unique_tokens = 0;
  uint64_t computed_tokens = 0;  // as the server reports
  LatencyHistogram latency;
  LatencyHistogram service_time;
  LatencyHistogram lateness;  // of all calls
  // the service time of calls that the server refused on arrival for lack of room
  LatencyHistogram refusal;
  std::array<LatencyHistogram, kNumStages> stages;
  std::map<std::string, uint64_t> outcomes;  // `OK`, `RESOURCE_EXHAUSTED reason`, `cancelled here`
  std::map<std::string, uint64_t> routes;    // `path small_batch`, `dense`

  void Record(const CallRecord& record, absl::Duration latency_goal);
  void Merge(const Tally& other);

  uint64_t num(CallOutcome outcome) const { return calls[static_cast<size_t>(outcome)]; }
  uint64_t num_candidates(CallOutcome outcome) const {
    return candidates[static_cast<size_t>(outcome)];
  }
  uint64_t total() const;
  // The fraction of calls that were refused or wrong, excluding calls given up on purpose. 0 if
  // there were no calls.
  double error_share() const;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TALLY_H_
