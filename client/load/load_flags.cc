#include "client/load/load_flags.h"

#include <iterator>
#include <vector>

#include "absl/flags/flag.h"
#include "client/client_options.h"
#include "client/load/load_options.h"
#include "client/load/traffic/load_driver.h"
#include "client/load/traffic/request_pool.h"
#include "client/output_fields.h"

using canopy::client::ClientOptions;
using canopy::client::DriverOptions;
using canopy::client::LoadOptions;
using canopy::client::PoolOptions;

ABSL_FLAG(std::string, targets, ClientOptions().target,
          "servers and their shares of the calls: HOST:PORT[=SHARE],...");
ABSL_FLAG(std::string, rpc, "score",
          "score (each request its own call) or stream (a ScoreStream on each connection)");
ABSL_FLAG(int32_t, connections, 1, "connections to each target; clients are spread over them");
ABSL_FLAG(int32_t, threads, 1, "threads that take answers; one is enough for some 10,000 a second");
ABSL_FLAG(bool, tls, false, "speak TLS, and verify the server");
ABSL_FLAG(std::string, tls_ca, "", "PEM file of the authorities; empty = the system's");
ABSL_FLAG(std::string, tls_cert, "", "PEM file of this client's certificate; empty = none");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its key");
ABSL_FLAG(std::string, token_file, "", "file with a bearer token; empty = none is sent");
ABSL_FLAG(int32_t, max_attempts, 1,
          "of a call, after UNAVAILABLE or a refusal that names a delay: 1 (no retries) to 5");

ABSL_FLAG(std::string, shapes, "small",
          "what is sent: SHAPE[=WEIGHT],..., each one of the shapes below");
ABSL_FLAG(std::string, trace, "",
          "JSON lines to send instead, each at its instant: {\"at_ms\": 12, \"shape\": \"small\"} "
          "or {\"at_ms\": 13, \"questions\": [...]}");
ABSL_FLAG(int32_t, pool, PoolOptions().requests_per_shape,
          "distinct requests of each shape, which are sent over and over");
ABSL_FLAG(uint64_t, seed, 1, "of everything that is drawn: tokens, arrivals, targets, ends");

ABSL_FLAG(std::string, arrivals, "auto",
          "closed (each client waits for its answer), or an open loop: constant, poisson or step; "
          "auto = closed, of a search constant, of a trace its own instants");
ABSL_FLAG(int32_t, clients, DriverOptions().clients, "of the closed loop");
ABSL_FLAG(double, rate, 100, "requests a second of constant and poisson; where a search begins");
ABSL_FLAG(std::string, steps, "", "of step: RATExDURATION,..., as 100x10s,500x5s,100x10s");
ABSL_FLAG(int64_t, max_in_flight, DriverOptions().max_in_flight,
          "calls of an open loop; what is due then is sent late");
ABSL_FLAG(absl::Duration, warmup, absl::Seconds(1), "sent and verified, but not counted");
ABSL_FLAG(absl::optional<absl::Duration>, duration, absl::nullopt,
          "of sending after the warm-up; absent = 10s, or until all --requests are sent; step and "
          "trace end by themselves");
ABSL_FLAG(uint64_t, requests, 0, "sent in all, the warm-up's too; 0 = as --duration says");

ABSL_FLAG(absl::Duration, latency_goal, absl::InfiniteDuration(),
          "an answer within it counts as goodput; the goal of a search; inf = none");
ABSL_FLAG(bool, search, false,
          "find the highest rate at which the goal holds, in runs of --duration each");
ABSL_FLAG(double, goal_quantile, LoadOptions().goal_quantile,
          "share of the calls that must meet the goal of a search");
ABSL_FLAG(std::string, thresholds, "",
          "exit code 4 unless all hold: FIGURE<=NUMBER,..., as "
          "latency_p99_ms<=50,error_share<0.001; --json writes the figures");

ABSL_FLAG(bool, verify, false,
          "compare every answer with that of its paths alone, computed once for the pool");
ABSL_FLAG(
    double, tolerance, DriverOptions().tolerance,
    "difference that a number may have, of the largest of its kind in the answer, and 1 at least");
ABSL_FLAG(
    double, cancel_share, 0,
    "share of the calls that are cancelled on their way, on a stream with all that is in flight");
ABSL_FLAG(double, kill_share, 0,
          "share of the calls whose connection is cut on their way, likewise");
ABSL_FLAG(absl::Duration, abandon_within, DriverOptions().abandon_within,
          "the longest after sending until such a call is given up; the instant is drawn");
ABSL_FLAG(int32_t, victims, 0,
          "client processes beside, of --clients each, that are killed at random instants and "
          "replaced, half of them with streams");
ABSL_FLAG(absl::Duration, victim_life, absl::Seconds(2), "the longest that such a process lives");

ABSL_FLAG(std::string, json, "", "file for all figures; - = stdout, instead of the text");
ABSL_FLAG(std::string, csv, "", "file for a row each second");
ABSL_FLAG(std::string, html, "", "file for a page with charts");
ABSL_FLAG(std::string, progress, "auto",
          "a line each second on stderr: auto|always|never; auto = on a terminal");

namespace canopy::client {
namespace {

constexpr absl::string_view kBeforeOutputs[] = {
    "targets", "rpc", "connections", "threads", "tls", "tls_ca", "tls_cert", "tls_key",
    "token_file", "deadline", "max_request_bytes", "max_attempts",
    // Requests.
    "shapes", "trace", "pool", "seed", "model", "min_model_version", "vocabulary_hash", "priority",
    "backend", "policy", "packing", "max_mask_bytes"};

constexpr absl::string_view kAfterOutputs[] = {
    // Times.
    "arrivals", "clients", "rate", "steps", "max_in_flight", "warmup", "duration", "requests",
    // Goals and checks.
    "latency_goal", "search", "goal_quantile", "thresholds", "verify", "tolerance", "cancel_share",
    "kill_share", "abandon_within", "victims", "victim_life",
    // Reports.
    "json", "csv", "html", "progress"};

}  // namespace

absl::Span<const absl::string_view> LoadFlagNames() {
  static const auto* const names = [] {
    auto* all = new std::vector<absl::string_view>(OutputsFieldNames());
    all->insert(all->begin(), std::begin(kBeforeOutputs), std::end(kBeforeOutputs));
    all->insert(all->end(), std::begin(kAfterOutputs), std::end(kAfterOutputs));
    return all;
  }();
  return *names;
}

}  // namespace canopy::client
