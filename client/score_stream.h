// ScoreStream: many requests in flight on one call, each answered when it is ready.
//
//   auto stream = client->OpenStream();
//   std::future<ScoreStream::Answer> first = (*stream)->Send(request);
//   (*stream)->Send(another, [](ScoreStream::Answer answer) { ... });
//   absl::Status ended = (*stream)->Finish();
//
// Every request gets exactly one answer: that of the server, checked as by Client::Score, or an
// error. A refusal keeps its details (client/error_details.h) and is not retried; if it has a retry
// delay, the caller may send the request again. If the stream itself ends, each unanswered request
// gets its error:
//
//   UNAVAILABLE        the server drains, or is gone; a new stream may be opened
//   CANCELLED          Cancel was called
//   DEADLINE_EXCEEDED  a request was unanswered for longer than ClientOptions::deadline
//   DATA_LOSS          the server sent a malformed answer, an answer to no request or a second
//                      answer, or ended the stream before it had answered everything
#ifndef CLIENT_SCORE_STREAM_H_
#define CLIENT_SCORE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "canopy/v1/scorer.pb.h"
#include "client/proxy.h"
#include "grpcpp/channel.h"

namespace canopy::client {

struct ScoreStreamOptions {
  // The most unanswered requests; Send waits if there are more. 0 = as many as the server reads
  // ahead (max_stream_in_flight in the limits of GetModel, which is called then).
  int max_in_flight = 0;

  static constexpr int kDefaultMaxInFlight = 64;  // for servers that report no limit
  static constexpr int kMaxInFlight = 65'536;
};

// Thread-safe. Callbacks run without locks on gRPC's threads or, if nothing was sent, in Send. They
// may call TrySend and Cancel, but must not block, neither in Send nor in Finish.
class ScoreStream {
 public:
  using Answer = absl::StatusOr<v1::ScoreResponse>;
  using Callback = std::function<void(Answer answer)>;

  // The data that a stream needs from its client.
  struct Limits {
    int max_in_flight = ScoreStreamOptions::kDefaultMaxInFlight;
    int64_t max_request_bytes = 0;
    absl::Duration deadline;           // the most time from sending a request to its answer
    std::string traceparent;           // '' = none
    absl::optional<ProxyRoute> proxy;  // the proxy that the channel uses
  };

  // Use Client::OpenStream. The call starts at once.
  ScoreStream(const std::shared_ptr<grpc::Channel>& channel, const Limits& limits);
  // Cancels the unanswered requests and waits for the last callback.
  ~ScoreStream();
  ScoreStream(const ScoreStream&) = delete;
  ScoreStream& operator=(const ScoreStream&) = delete;

  // Sends `request`; blocks while the most allowed number of requests is unanswered. Fills in an
  // empty request_id and sends raw64 as raw (client/token_forms.h). `done` gets these errors
  // without anything being sent: INVALID_ARGUMENT for a request_id that is in flight or raw64 that
  // cannot be narrowed, RESOURCE_EXHAUSTED for a request over max_request_bytes,
  // FAILED_PRECONDITION after Finish, and the stream's error after it has ended.
  void Send(v1::ScoreRequest request, Callback done);
  std::future<Answer> Send(v1::ScoreRequest request);
  // Like Send, but returns false without any effect if Send would block.
  bool TrySend(v1::ScoreRequest request, Callback done);

  // Sends nothing more and waits for all answers, their callbacks and the end of the stream.
  // Returns OK if the server ended the stream as expected, else one of the errors above. May be
  // called again.
  absl::Status Finish();
  // Cancels the unanswered requests.
  void Cancel();

  // Returns the number of unanswered requests.
  size_t num_in_flight() const;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace canopy::client

#endif  // CLIENT_SCORE_STREAM_H_
