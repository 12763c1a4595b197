// Sends calls on ScoreStreams: one stream per connection, with all calls of its clients in flight.
//
// A request of a stream cannot be given up alone. A call that is cancelled cancels its stream, and
// a call that is killed cuts its stream's connection. Everything unanswered on the stream is then
// given up, and the next call opens a new stream. A stream that the server ends is replaced in the
// same way.
#ifndef CLIENT_LOAD_TRAFFIC_STREAM_SENDER_H_
#define CLIENT_LOAD_TRAFFIC_STREAM_SENDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/load/traffic/call_sender.h"

namespace canopy::client {

class StreamSender final : public CallSender {
 public:
  StreamSender(SenderOptions options, SenderEvents events);
  ~StreamSender() override;

  void Send(std::unique_ptr<LoadCall> call) override;
  void Abandon(uint64_t id) override;
  void EndOverdue(absl::Duration now) override;
  void Close() override;

 private:
  struct Slot;
  struct Session;

  // The reason why a session ends early.
  struct Ending {
    absl::optional<CallOutcome> given_up;
    absl::Status failure;
  };

  absl::Status Open(Slot* slot);
  void Take(Session* session, grpc::ByteBuffer* message);
  void End(Session* session, const absl::Status& status);
  void EndEarly(const std::shared_ptr<Session>& session, const Ending& ending);
  bool NoSessions() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_sessions_ == 0; }

  const SenderOptions options_;
  const SenderEvents events_;
  std::vector<std::unique_ptr<Slot>> slots_;  // [targets * connections]

  Mutex mutex_;
  int num_sessions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_STREAM_SENDER_H_
