// One ScoreRequest from its bytes to the bytes of its answer, whichever call brought it.
//
//   gRPC thread        Start decodes, checks and submits
//   engine's threads   run it
//   encoding threads   one of them encodes, then calls back
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

// Whom a request comes from, and until when.
struct Caller {
  std::string client;  // one connection
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Must live until it has called back, and until Start has returned; as long as it lives, the
// answer's memory is reserved.
class ScoreWork {
 public:
  // The bytes of a ScoreResponse, or why there is none.
  using Callback = std::function<void(absl::StatusOr<grpc::ByteBuffer>)>;

  explicit ScoreWork(ServiceContext* context)
      : context_(*context), reservation_(&context->memory) {}
  ScoreWork(const ScoreWork&) = delete;
  ScoreWork& operator=(const ScoreWork&) = delete;

  // Once. OK = `done` is called exactly once, on an encoding thread. Errors as the contract
  // gives them for the request, or RESOURCE_EXHAUSTED with RetryAfter for want of host memory.
  absl::Status Start(Engine* engine, grpc::Slice message, const Caller& caller, Callback done);

  // Nobody waits for the answer any more, which then comes at once. From any thread, at any time.
  void Cancel();

  // What the log says of the request, once it was answered: its id ('' = none), and what was
  // observed, null unless it was scored.
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
  Stopwatch encode_queue_;  // since the engine answered
  grpc::Slice message_;
  PreparedRequest request_;
  int64_t answer_bytes_ = 0;  // estimated
  Callback done_;
  JobId job_id_ = 0;
  std::atomic<Engine*> engine_{nullptr};  // once job_id_ is set
  std::atomic<bool> cancelled_{false};
  absl::StatusOr<ScoreResult> result_;
  std::optional<ScoreObservation> observation_;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_SCORE_WORK_H_
