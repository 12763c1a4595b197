// One ScoreRequest, from its bytes to the bytes of its answer. Score and ScoreStream share it.
//
//   gRPC thread        Start decodes, checks and submits the request
//   engine's threads   run it
//   encoding thread    encodes the answer, then calls back
#ifndef SERVER_RPC_SCORE_WORK_H_
#define SERVER_RPC_SCORE_WORK_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory_budget.h"
#include "base/stopwatch.h"
#include "core/engine/engine.h"
#include "core/engine/types.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/rpc/service_context.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/request_log.h"
#include "server/wire/message_bytes.h"
#include "server/wire/request_validator.h"
#include "server/wire/response_encoder.h"

namespace canopy::server {

// The sender of a request, and its deadline.
struct Caller {
  std::string client;  // one connection
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Must live until it has called back and Start has returned. The answer's memory is reserved as
// long as the object lives.
class ScoreWork {
 public:
  // Receives the bytes of a ScoreResponse, or an error.
  using Callback = std::function<void(absl::StatusOr<grpc::ByteBuffer>)>;

  explicit ScoreWork(ServiceContext* context)
      : context_(*context), reservation_(&context->memory) {}
  ScoreWork(const ScoreWork&) = delete;
  ScoreWork& operator=(const ScoreWork&) = delete;

  // Starts the request. Call it once. If the result is OK, `done` is called exactly once, on an
  // encoding thread. Returns the errors of the contract for the request, or RESOURCE_EXHAUSTED with
  // RetryAfter if there is too little host memory.
  absl::Status Start(Engine* engine, grpc::Slice message, const Caller& caller, Callback done);

  // Makes the answer come at once, because nobody waits for it. May be called on any thread at any
  // time.
  void Cancel();

  // Data for the log, after the request was answered: its id ('' = none), and the observed figures,
  // which are null unless the request was scored.
  absl::string_view request_id() const { return FindRequestId(ViewOf(message_)); }
  const ScoreObservation* observation() const {
    return observation_.has_value() ? &*observation_ : nullptr;
  }
  double elapsed_ms() const { return times_.total.ElapsedMs(); }

 private:
  absl::Status Prepare(Engine* engine, absl::string_view client);
  void Encode();

  ServiceContext& context_;
  MemoryBudget::Reservation reservation_;
  RequestTimes times_;
  Stopwatch encode_queue_;  // the time since the engine answered
  grpc::Slice message_;
  PreparedRequest request_;
  int64_t answer_bytes_ = 0;  // an estimate
  Callback done_;
  JobId job_id_ = 0;
  std::atomic<Engine*> engine_{nullptr};  // set after job_id_
  std::atomic<bool> cancelled_{false};
  absl::StatusOr<ScoreResult> result_;
  std::optional<ScoreObservation> observation_;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_SCORE_WORK_H_
