// Sends the calls of a load test to a server: one by one (unary_sender.h), or many on a stream
// (stream_sender.h). A sender reports how each call ended. The driver decides when to send, what an
// end means, and what is counted.
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

// One request from its intended time to its end, including retries.
struct LoadCall {
  uint64_t id = 0;
  int client = -1;  // the client of the closed loop; -1 = the open loop
  const PooledRequest* request = nullptr;
  size_t request_index = 0;
  size_t target = 0;
  size_t connection = 0;
  std::string request_id;
  // If kCancelled or kKilled, the call is given up `abandon_after` after it is sent.
  CallOutcome planned_outcome = CallOutcome::kAnswered;
  absl::Duration abandon_after;
  absl::Duration intended;
  absl::Duration first_sent;
  absl::Duration sent;
  absl::Duration time_left;  // from `sent` to its deadline
  int attempts = 0;
};

// How an attempt ended.
struct CallEnd {
  absl::Status status;                  // the error if there is no answer
  v1::ScoreResponse* answer = nullptr;  // owned by the sender; valid during the callback
  // kCancelled or kKilled if the call was given up on purpose
  absl::optional<CallOutcome> given_up;
  std::string problem;  // a violation of the protocol; empty = none
};

struct SenderOptions {
  std::vector<Target> targets;  // at least one
  ClientOptions client;  // of every connection, except for its target; never retries by itself
  std::string token;     // for `authorization: Bearer` of every call; empty = none
  int connections = 1;   // to each target; at least 1
  int lanes = 1;         // ends of different lanes may be reported at the same time
  bool kills = false;    // some calls have the planned outcome kKilled
};

struct SenderEvents {
  std::function<void(int lane, std::unique_ptr<LoadCall> call, CallEnd end)> on_end;
  // Called for a message that answers no call.
  std::function<void(size_t target, absl::string_view problem)> on_unmatched;
};

// Thread-safe. Close must be called before the destructor.
class CallSender {
 public:
  virtual ~CallSender() = default;

  // Sends a call. on_end is called exactly once, perhaps before Send returns, and never while locks
  // are held.
  virtual void Send(std::unique_ptr<LoadCall> call) = 0;
  // Gives up a call whose planned outcome is kCancelled or kKilled. Has no effect if it has ended.
  virtual void Abandon(uint64_t id) = 0;
  // Ends calls that are past their deadline if gRPC does not do so. `now` has the origin of
  // LoadCall::sent.
  virtual void EndOverdue(absl::Duration now) = 0;
  // Waits for the last messages of the servers. Precondition: all calls have ended.
  virtual void Close() = 0;
};

// Returns an id such as `load-17`.
std::string LoadRequestId(uint64_t id);
// Returns the bytes of the pooled request, without a copy, with the id as an additional field.
grpc::ByteBuffer RequestBytes(const LoadCall& call);
std::unique_ptr<grpc::ClientContext> NewContext(const SenderOptions& options);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_CALL_SENDER_H_
