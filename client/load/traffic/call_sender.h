// How a load test's calls reach a server: one by one (unary_sender.h), or many on a stream
// (stream_sender.h). A sender sends what it is given and says how it came back; when to send, what
// an end means and what is counted is the driver's.
#ifndef CLIENT_LOAD_TRAFFIC_CALL_SENDER_H_
#define CLIENT_LOAD_TRAFFIC_CALL_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "canopy/v1/scorer.pb.h"
#include "client/client_options.h"
#include "client/load/traffic/request_pool.h"
#include "client/load/traffic/tally.h"
#include "client/load/traffic/targets.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"

namespace canopy::client {

// One request from the instant when it is to be sent to its end, retries included.
struct LoadCall {
  uint64_t id = 0;
  int client = -1;  // Of the closed loop; -1 = the open loop's.
  const PooledRequest* request = nullptr;
  size_t request_index = 0;
  size_t target = 0;
  size_t connection = 0;
  std::string request_id;
  CallOutcome planned_outcome = CallOutcome::kAnswered;  // Or kCancelled, kKilled: to be given up.
  absl::Duration abandon_after;
  absl::Duration intended;
  absl::Duration first_sent;
  absl::Duration sent;
  absl::Duration time_left;  // From `sent` to its deadline.
  int attempts = 0;
};

// How an attempt came back.
struct CallEnd {
  absl::Status status;                   // Why there is no answer.
  v1::ScoreResponse* answer = nullptr;   // The sender's, for as long as it is being told.
  absl::optional<CallOutcome> given_up;  // On purpose: kCancelled or kKilled.
  std::string problem;                   // What is wrong with it in any case; empty = nothing.
};

struct SenderOptions {
  std::vector<Target> targets;  // At least one.
  ClientOptions client;         // Of every connection but for its target; never retries by itself.
  std::string token;            // `authorization: Bearer` of every call; empty = none.
  int connections = 1;          // To each target; at least 1.
  int lanes = 1;                // Ends of different lanes may be told at the same time.
  bool kills = false;           // Some calls have the planned outcome kKilled.
};

struct SenderEvents {
  std::function<void(int lane, std::unique_ptr<LoadCall> call, CallEnd end)> on_end;
  // Something came that answers no call.
  std::function<void(size_t target, absl::string_view problem)> on_stray;
};

// Thread-safe. Destroyed after Close.
class CallSender {
 public:
  virtual ~CallSender() = default;

  // Told to on_end exactly once, perhaps before Send returns; never while locks are held.
  virtual void Send(std::unique_ptr<LoadCall> call) = 0;
  // Gives up a call that wishes it; nothing when it has ended.
  virtual void Abandon(uint64_t id) = 0;
  // Ends calls that are past their deadline, where gRPC does not. `now` is as LoadCall::sent.
  virtual void EndOverdue(absl::Duration now) = 0;
  // Once all calls have ended: waits for the last of what a server may still say.
  virtual void Close() = 0;
};

// As `load-17`.
std::string LoadRequestId(uint64_t id);
// The pooled request's bytes, which are not copied, and the id as a further field.
grpc::ByteBuffer RequestBytes(const LoadCall& call);
std::unique_ptr<grpc::ClientContext> NewContext(const SenderOptions& options);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_CALL_SENDER_H_
