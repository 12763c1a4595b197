// The flags of `canopy_load` that `canopy` does not have. Flags that describe requests are those of
// client/cli/flags.h.
#ifndef CLIENT_LOAD_LOAD_FLAGS_H_
#define CLIENT_LOAD_LOAD_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/flags/declare.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

ABSL_DECLARE_FLAG(std::string, targets);
ABSL_DECLARE_FLAG(std::string, rpc);
ABSL_DECLARE_FLAG(int32_t, connections);
ABSL_DECLARE_FLAG(int32_t, threads);
ABSL_DECLARE_FLAG(bool, tls);
ABSL_DECLARE_FLAG(std::string, tls_ca);
ABSL_DECLARE_FLAG(std::string, tls_cert);
ABSL_DECLARE_FLAG(std::string, tls_key);
ABSL_DECLARE_FLAG(std::string, token_file);
ABSL_DECLARE_FLAG(int32_t, max_attempts);

ABSL_DECLARE_FLAG(std::string, shapes);
ABSL_DECLARE_FLAG(std::string, trace);
ABSL_DECLARE_FLAG(int32_t, pool);
ABSL_DECLARE_FLAG(uint64_t, seed);

ABSL_DECLARE_FLAG(std::string, arrivals);
ABSL_DECLARE_FLAG(int32_t, clients);
ABSL_DECLARE_FLAG(double, rate);
ABSL_DECLARE_FLAG(std::string, steps);
ABSL_DECLARE_FLAG(int64_t, max_in_flight);
ABSL_DECLARE_FLAG(absl::Duration, warmup);
ABSL_DECLARE_FLAG(absl::optional<absl::Duration>, duration);
ABSL_DECLARE_FLAG(uint64_t, requests);

ABSL_DECLARE_FLAG(absl::Duration, latency_goal);
ABSL_DECLARE_FLAG(bool, search);
ABSL_DECLARE_FLAG(double, goal_quantile);
ABSL_DECLARE_FLAG(std::string, thresholds);

ABSL_DECLARE_FLAG(bool, verify);
ABSL_DECLARE_FLAG(double, tolerance);
ABSL_DECLARE_FLAG(double, cancel_share);
ABSL_DECLARE_FLAG(double, kill_share);
ABSL_DECLARE_FLAG(absl::Duration, abandon_within);
ABSL_DECLARE_FLAG(int32_t, victims);
ABSL_DECLARE_FLAG(absl::Duration, victim_life);

ABSL_DECLARE_FLAG(std::string, json);
ABSL_DECLARE_FLAG(std::string, csv);
ABSL_DECLARE_FLAG(std::string, html);
ABSL_DECLARE_FLAG(std::string, progress);

namespace canopy::client {

// Returns every flag of the program, in the order of --help.
absl::Span<const absl::string_view> LoadFlagNames();

}  // namespace canopy::client

#endif  // CLIENT_LOAD_LOAD_FLAGS_H_
