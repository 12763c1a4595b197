// What every call of the service uses.
#ifndef SERVER_RPC_SERVICE_CONTEXT_H_
#define SERVER_RPC_SERVICE_CONTEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/memory_budget.h"
#include "base/memory_use.h"
#include "server/net/write_watch.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/worker_pool.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/raw_token_warnings.h"
#include "server/telemetry/request_log.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

struct CallLimits {
  RequestLimits request;
  int32_t max_stream_in_flight = 64;  // unanswered requests of one stream
  int32_t encode_threads = 0;         // threads that encode answers; 0 = one a core, but 2 to 4
  LogRequests log_requests{};
  int64_t max_request_memory_bytes = int64_t{8} << 30;
  std::function<MemoryUse()> read_memory;               // null = the process has no limit
  absl::Duration write_timeout = absl::ZeroDuration();  // of a client that stalls; zero = none
};

// The threads are last, so that they end first.
struct ServiceContext {
  // Plans of Explain hold memory while they wait: a few are as many as people look at.
  static constexpr size_t kMaxWaitingExplains = 16;

  ServiceContext(const CallLimits& limits, CallGate* call_gate, Metrics* all_metrics)
      : request_limits(limits.request),
        max_stream_in_flight(limits.max_stream_in_flight),
        request_log(limits.log_requests),
        gate(*call_gate),
        metrics(*all_metrics),
        memory(limits.max_request_memory_bytes, limits.read_memory),
        raw_tokens(all_metrics),
        writes(limits.write_timeout, [this] { metrics.StalledCallCut(); }),
        encoders(NumEncodeThreads(limits.encode_threads), 0),
        explains(1, kMaxWaitingExplains) {}

  // With one thread, a large answer would hold up small ones even if cores were idle.
  static int NumEncodeThreads(int32_t wanted) {
    const auto num_cores = static_cast<int>(std::thread::hardware_concurrency());
    return wanted > 0 ? wanted : std::clamp(num_cores, 2, 4);
  }

  const RequestLimits request_limits;
  const int32_t max_stream_in_flight;
  const RequestLog request_log;
  CallGate& gate;
  Metrics& metrics;
  MemoryBudget memory;
  RawTokenWarnings raw_tokens;
  WriteWatch writes;
  // Several, so that a large answer does not hold up small ones. How many answers wait for them is
  // bounded by the memory that requests pledge.
  WorkerPool encoders;
  WorkerPool explains;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_SERVICE_CONTEXT_H_
