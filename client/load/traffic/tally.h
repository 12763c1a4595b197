// What a load test counts: every call once, by how it ended.
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
  kRefused,    // Any error of the server or of the way to it, retries used up.
  kCancelled,  // By this client, on purpose.
  kKilled,     // Its connection was, by this client, on purpose.
  kWrong,      // Answered, but not as it should be.
};
inline constexpr int kNumCallOutcomes = 5;
absl::string_view CallOutcomeName(CallOutcome outcome);

// One call that has ended.
struct CallRecord {
  const PooledRequest* request = nullptr;
  CallOutcome outcome = CallOutcome::kAnswered;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;           // Of a refusal: google.rpc.ErrorInfo's.
  absl::Duration latency;       // From the instant when it was to be sent to its end.
  absl::Duration service_time;  // From the instant when it was sent, the last attempt alone.
  absl::Duration lateness;      // Between the two instants.
  int attempts = 1;
  const v1::Stats* stats = nullptr;  // Of an answer.
};

// Stages of an answered call: those that the server reports, its total, and what is left of the
// service time: client, gRPC and network.
enum class Stage { kDecode, kQueue, kPlan, kDevice, kEncodeQueue, kEncode, kServer, kOutside };
inline constexpr int kNumStages = 8;
absl::string_view StageName(Stage stage);

// Thread-compatible.
struct Tally {
  std::array<uint64_t, kNumCallOutcomes> calls{};       // By outcome.
  std::array<uint64_t, kNumCallOutcomes> candidates{};  // Those sent in these calls.
  uint64_t retries = 0;                                 // Attempts beyond the first of each call.
  // Of answered calls.
  uint64_t within_goal = 0;
  uint64_t questions = 0;
  uint64_t input_tokens = 0;
  uint64_t unique_tokens = 0;
  uint64_t computed_tokens = 0;  // As the server reports.
  LatencyHistogram latency;
  LatencyHistogram service_time;
  LatencyHistogram lateness;  // Of all calls.
  LatencyHistogram refusal;   // Service time of what the server had no room for when it came.
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
  // Share of refused and wrong ones among the calls that were not given up on purpose; 0 of none.
  double error_share() const;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TALLY_H_
