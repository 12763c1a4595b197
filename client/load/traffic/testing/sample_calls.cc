#include "client/load/traffic/testing/sample_calls.h"

namespace canopy::client {

Tally TenCalls() {
  static const PooledRequest* const kRequest = [] {
    auto* request = new PooledRequest();
    request->questions = 2;
    request->candidates = 5;
    request->input_tokens = 100;
    request->unique_tokens = 30;
    return request;
  }();
  static const v1::Stats* const kStats = [] {
    auto* stats = new v1::Stats();
    stats->set_backend(v1::BACKEND_PATH);
    stats->set_reason("small_batch");
    stats->set_queue_ms(2);
    stats->set_total_ms(8);
    stats->set_computed_tokens(40);
    return stats;
  }();
  Tally tally;
  for (int i = 1; i <= 10; ++i) {
    CallRecord record;
    record.request = kRequest;
    record.latency = absl::Milliseconds(i * 12);
    record.service_time = absl::Milliseconds(10);
    record.lateness = absl::Milliseconds(i);
    record.stats = kStats;
    if (i > 6) {
      record.outcome = i == 9    ? CallOutcome::kCancelled
                       : i == 10 ? CallOutcome::kKilled
                                 : CallOutcome::kRefused;
      record.code = absl::StatusCode::kUnavailable;
      record.reason = i == 7 ? "loading" : "";
      record.attempts = 3;
    }
    tally.Record(record, absl::Milliseconds(50));
  }
  return tally;
}

}  // namespace canopy::client
