// Warns the operator of clients that most likely send the bytes of int64 arrays as TokenIds.raw.
// Such a request is valid, but scores different tokens from those that its sender meant.
#ifndef SERVER_TELEMETRY_RAW_TOKEN_WARNINGS_H_
#define SERVER_TELEMETRY_RAW_TOKEN_WARNINGS_H_

#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/telemetry/metrics.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

// Thread-safe.
class RawTokenWarnings {
 public:
  // The most hosts that are remembered, so that the memory is bounded. Requests of further hosts
  // are only counted.
  static constexpr size_t kMaxHosts = 4'096;

  explicit RawTokenWarnings(Metrics* metrics) : metrics_(*metrics) {}
  RawTokenWarnings(const RawTokenWarnings&) = delete;
  RawTokenWarnings& operator=(const RawTokenWarnings&) = delete;

  // Counts a suspicious request, and logs one warning for each host that sends such requests.
  // `client` is the peer as gRPC names it, such as `ipv4:10.0.0.1:50000`.
  void Record(absl::string_view client, const RequestNotes& notes) {
    if (!notes.suspicious_raw.empty()) {
      Warn(client, notes.suspicious_raw);
    }
  }

 private:
  void Warn(absl::string_view client, const std::string& field) ABSL_LOCKS_EXCLUDED(mutex_);

  Metrics& metrics_;
  Mutex mutex_;
  absl::flat_hash_set<std::string> warned_hosts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_RAW_TOKEN_WARNINGS_H_
