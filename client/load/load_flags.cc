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
ABSL_FLAG(int32_t, connections, 1, "connections to each target; clients are distributed over them");
ABSL_FLAG(int32_t, threads, 1,
          "threads that receive answers; one is enough for about 10,000 per second");
ABSL_FLAG(bool, tls, false, "use TLS, and verify the server");
ABSL_FLAG(std::string, tls_ca, "", "PEM file of the authorities; empty = the system's");
ABSL_FLAG(std::string, tls_cert, "", "PEM file of this client's certificate; empty = none");
ABSL_FLAG(std::string, tls_key, "", "PEM file of the certificate's key");
ABSL_FLAG(std::string, token_file, "", "file with a bearer token; empty = none is sent");
ABSL_FLAG(
    int32_t, max_attempts, 1,
    "attempts of a call, after UNAVAILABLE or a refusal with a retry delay: 1 (no retries) to 5");

ABSL_FLAG(std::string, shapes, "small",
          "requests to send: SHAPE[=WEIGHT],..., with the shapes below");
ABSL_FLAG(std::string, trace, "",
          "JSON lines to send instead, each at its time: {\"at_ms\": 12, \"shape\": \"small\"} "
          "or {\"at_ms\": 13, \"questions\": [...]}");
ABSL_FLAG(int32_t, pool, PoolOptions().requests_per_shape,
          "distinct requests of each shape, which are sent repeatedly");
ABSL_FLAG(uint64_t, seed, 1,
          "seed of all random choices: tokens, arrivals, targets, cancellations");

ABSL_FLAG(std::string, arrivals, "auto",
          "closed (each client waits for its answer), or an open loop: constant, poisson or step; "
          "auto = closed; constant for a search; the times of a trace");
ABSL_FLAG(int32_t, clients, DriverOptions().clients, "clients of the closed loop");
ABSL_FLAG(double, rate, 100,
          "requests per second for constant and poisson, and the first rate of a search");
ABSL_FLAG(std::string, steps, "",
          "rates for step: RATExDURATION,..., such as 100x10s,500x5s,100x10s");
ABSL_FLAG(int64_t, max_in_flight, DriverOptions().max_in_flight,
          "most calls in flight of an open loop; further calls are sent late");
ABSL_FLAG(absl::Duration, warmup, absl::Seconds(1),
          "time whose calls are sent and verified, but not counted");
ABSL_FLAG(absl::optional<absl::Duration>, duration, absl::nullopt,
          "time of sending after the warm-up; absent = 10s, or until all --requests are sent; step "
          "and trace end by themselves");
ABSL_FLAG(uint64_t, requests, 0,
          "requests in all, including the warm-up; 0 = limited by --duration only");

ABSL_FLAG(absl::Duration, latency_goal, absl::InfiniteDuration(),
          "answers within this time count as goodput; also the goal of a search; inf = none");
ABSL_FLAG(bool, search, false,
          "find the highest rate that meets the goal, in runs of --duration each");
ABSL_FLAG(double, goal_quantile, LoadOptions().goal_quantile,
          "fraction of the calls that must meet the goal of a search");
ABSL_FLAG(std::string, thresholds, "",
          "exit code 4 unless all are met: FIGURE<=NUMBER,..., such as "
          "latency_p99_ms<=50,error_share<0.001; --json writes the figures");

ABSL_FLAG(bool, verify, false,
          "compare every answer with that of its paths alone, which is computed once for the pool");
ABSL_FLAG(double, tolerance, DriverOptions().tolerance,
          "allowed difference of a number, relative to the largest of its kind in the answer, at "
          "least 1");
ABSL_FLAG(double, cancel_share, 0,
          "fraction of the calls that are cancelled in flight, on a stream together with all calls "
          "in flight");
ABSL_FLAG(
    double, kill_share, 0,
    "fraction of the calls whose connection is cut in flight, on a stream together with all calls");
ABSL_FLAG(absl::Duration, abandon_within, DriverOptions().abandon_within,
          "most time between sending and giving up such a call; the time is random");
ABSL_FLAG(int32_t, victims, 0,
          "additional client processes, of --clients each, that are killed at random times and "
          "replaced; half of them use streams");
ABSL_FLAG(absl::Duration, victim_life, absl::Seconds(2), "most time that such a process lives");

ABSL_FLAG(std::string, json, "", "file for all figures; - = stdout, instead of the text");
ABSL_FLAG(std::string, csv, "", "file for one row per second");
ABSL_FLAG(std::string, html, "", "file for a page with charts");
ABSL_FLAG(std::string, progress, "auto",
          "one line per second on stderr: auto|always|never; auto = on a terminal");

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
