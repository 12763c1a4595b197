// What every call of the service uses.
#ifndef SERVER_SERVICE_CONTEXT_H_
#define SERVER_SERVICE_CONTEXT_H_

#include <cstddef>
#include <cstdint>

#include "server/call_gate.h"
#include "server/metrics.h"
#include "server/request_log.h"
#include "server/request_validator.h"
#include "server/worker_thread.h"

namespace canopy::server {

// The threads are last, so that they end first.
struct ServiceContext {
  // Plans of Explain hold memory while they wait: a few are as many as people look at.
  static constexpr size_t kMaxWaitingExplains = 16;

  ServiceContext(const RequestLimits& limits, int32_t max_in_flight, LogRequests logged_requests,
                 CallGate* call_gate, Metrics* all_metrics)
      : request_limits(limits),
        max_stream_in_flight(max_in_flight),
        request_log(logged_requests),
        gate(*call_gate),
        metrics(*all_metrics),
        completions(0),
        explains(kMaxWaitingExplains) {}

  const RequestLimits request_limits;
  const int32_t max_stream_in_flight;  // unanswered requests of one stream
  const RequestLog request_log;
  CallGate& gate;
  Metrics& metrics;
  WorkerThread completions;
  WorkerThread explains;
};

}  // namespace canopy::server

#endif  // SERVER_SERVICE_CONTEXT_H_
