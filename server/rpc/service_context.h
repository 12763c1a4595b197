// The state that all calls of the service share.
#ifndef SERVER_RPC_SERVICE_CONTEXT_H_
#define SERVER_RPC_SERVICE_CONTEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "base/memory_budget.h"
#include "base/memory_use.h"
#include "server/net/write_watchdog.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/call_options.h"
#include "server/rpc/worker_pool.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/raw_token_warnings.h"
#include "server/telemetry/request_log.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

// The thread pools are declared last: their threads use the other
// members, and are joined before these are destroyed.
struct ServiceContext {
  // Waiting plans of Explain hold memory, and people rarely look at more than a few.
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
        large_answer_bytes(options.large_answer_bytes),
        encoders(NumEncodeThreads(options.encode_threads), 0),
        large_encoder(1, 0),
        explains(1, kMaxWaitingExplains) {}

  // With one thread, an answer would delay smaller ones even if cores were idle.
  static int NumEncodeThreads(int32_t wanted) {
    const auto num_cores = static_cast<int>(std::thread::hardware_concurrency());
    return wanted > 0 ? wanted : std::clamp(num_cores, 2, 4);
  }

  // Returns the threads that encode an answer of `answer_bytes` estimated bytes.
  WorkerPool& EncodersFor(int64_t answer_bytes) {
    return answer_bytes > large_answer_bytes ? large_encoder : encoders;
  }

  const RequestLimits request_limits;
  const int32_t max_stream_in_flight;
  const RequestLog request_log;
  CallGate& gate;
  Metrics& metrics;
  MemoryBudget memory;
  RawTokenWarnings raw_tokens;
  WriteWatchdog writes;
  const int64_t large_answer_bytes;
  // The memory that requests reserve bounds how many answers wait for these threads. Large answers
  // have a thread of their own: they do not delay small ones, and at most one of them takes more
  // memory than it reserved.
  WorkerPool encoders;
  WorkerPool large_encoder;
  WorkerPool explains;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_SERVICE_CONTEXT_H_
