// ScoreStream: many requests in flight on one call, each answered when it is ready.
//
//   auto stream = client->OpenStream();
//   std::future<ScoreStream::Answer> first = (*stream)->Send(request);
//   (*stream)->Send(another, [](ScoreStream::Answer answer) { ... });
//   absl::Status ended = (*stream)->Finish();
//
// Every request gets exactly one answer: the server's, checked as Client::Score checks it, or an
// error. A refusal keeps its details (client/error_details.h) and is not repeated here: where it
// names a delay the caller may send the request again. When the stream itself ends, each request
// that is unanswered gets its error:
//   UNAVAILABLE        the server drains, or is gone; a new stream may be opened
//   CANCELLED          Cancel was called
//   DEADLINE_EXCEEDED  a request was unanswered for longer than ClientOptions::deadline
//   DATA_LOSS          the server sent what is no answer, an answer to no request or a second one,
//                      or it ended the stream without having answered
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
  // Requests that may be unanswered; more wait in Send. 0 = as many as the server reads ahead
  // (max_stream_in_flight among the limits of GetModel, which is then asked).
  int max_in_flight = 0;

  static constexpr int kDefaultMaxInFlight = 64;  // Of servers that do not say.
  static constexpr int kMaxInFlight = 65'536;
};

// Thread-safe. Callbacks run on gRPC's threads or, where nothing was sent, in Send; without locks.
// They may call TrySend and Cancel, but must not wait: not in Send, not in Finish.
class ScoreStream {
 public:
  using Answer = absl::StatusOr<v1::ScoreResponse>;
  using Callback = std::function<void(Answer answer)>;

  // What a stream needs to know of its client.
  struct Limits {
    int max_in_flight = ScoreStreamOptions::kDefaultMaxInFlight;
    int64_t max_request_bytes = 0;
    absl::Duration deadline;           // from sending a request to its answer
    std::string traceparent;           // '' = none
    absl::optional<ProxyRoute> proxy;  // that the channel goes through
  };

  // Use Client::OpenStream. The call starts at once.
  ScoreStream(const std::shared_ptr<grpc::Channel>& channel, const Limits& limits);
  // Cancels what is unanswered, and waits for the last callback.
  ~ScoreStream();
  ScoreStream(const ScoreStream&) = delete;
  ScoreStream& operator=(const ScoreStream&) = delete;

  // Sends `request`; waits first while as many as allowed are unanswered. An empty request_id is
  // filled in, and raw64 is sent as raw (client/token_forms.h). Without sending: INVALID_ARGUMENT
  // for a request_id that is in flight or raw64 that cannot be narrowed, RESOURCE_EXHAUSTED for a
  // request over max_request_bytes, FAILED_PRECONDITION after Finish, and the stream's error once
  // it has ended.
  void Send(v1::ScoreRequest request, Callback done);
  std::future<Answer> Send(v1::ScoreRequest request);
  // As Send; false, and nothing happens, where that would wait.
  bool TrySend(v1::ScoreRequest request, Callback done);

  // Sends no more, and waits for all answers, their callbacks and the stream's end. OK when the
  // server ended it as it should; the errors above. May be called again.
  absl::Status Finish();
  // Gives up what is unanswered.
  void Cancel();

  // Requests that are not answered yet.
  size_t num_in_flight() const;

 private:
  class State;
  const std::shared_ptr<State> state_;
};

}  // namespace canopy::client

#endif  // CLIENT_SCORE_STREAM_H_
