// What every call of the service uses.
#ifndef SERVER_RPC_SERVICE_CONTEXT_H_
#define SERVER_RPC_SERVICE_CONTEXT_H_

#include <cstddef>
#include <cstdint>

#include "base/memory_budget.h"
#include "base/memory_use.h"
#include "server/net/write_watch.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/call_options.h"
#include "server/rpc/worker_thread.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/raw_token_warnings.h"
#include "server/telemetry/request_log.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

// The threads are last, so that they end first.
struct ServiceContext {
  // Plans of Explain hold memory while they wait: a few are as many as people look at.
  static constexpr size_t kMaxWaitingExplains = 16;

  ServiceContext(const CallOptions& options, CallGate* call_gate, Metrics* all_metrics)
      : request_limits(options.request),
        max_stream_in_flight(options.max_stream_in_flight),
        request_log(options.log_requests),
        gate(*call_gate),
        metrics(*all_metrics),
        memory(options.max_request_memory_bytes, MemoryReader(options.memory_limit_bytes)),
        raw_tokens(all_metrics),
        writes(options.write_timeout, [this] { metrics.StalledCallCut(); }),
        completions(0),
        explains(kMaxWaitingExplains) {}

  const RequestLimits request_limits;
  const int32_t max_stream_in_flight;
  const RequestLog request_log;
  CallGate& gate;
  Metrics& metrics;
  MemoryBudget memory;
  RawTokenWarnings raw_tokens;
  WriteWatch writes;
  WorkerThread completions;
  WorkerThread explains;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_SERVICE_CONTEXT_H_
