// One bidirectional gRPC call in bytes: many threads write, what comes back arrives one at a time.
// Knows nothing of what the messages say; client/score_stream.h does.
#ifndef CLIENT_MESSAGE_STREAM_H_
#define CLIENT_MESSAGE_STREAM_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/status.h"

namespace canopy::client {

// Thread-safe. Lives until the call has ended, also when nobody holds it any more.
class MessageStream final : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Called on gRPC's threads, one at a time, without locks; they must not wait for this stream.
  struct Events {
    std::function<void(grpc::ByteBuffer* message)> on_message;
    std::function<void(const grpc::Status& status)> on_end;  // once, the last of these
    // May be null. On whichever thread drops the stream last, when nothing of it is left: its hold
    // of the channel and the functions above are gone.
    std::function<void()> on_gone = nullptr;
  };

  // Starts `method`, as `/package.Service/Method`. `context` holds deadline and metadata.
  static std::shared_ptr<MessageStream> Open(const std::shared_ptr<grpc::Channel>& channel,
                                             const std::string& method,
                                             std::unique_ptr<grpc::ClientContext> context,
                                             Events events);

  // Sends after all that was written before. Never waits: the caller bounds what is on its way.
  // Dropped once the stream is over; on_end tells.
  void Write(const grpc::ByteBuffer& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing more will be written. The server then ends the stream.
  void WritesDone() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends it now, with CANCELLED unless the server's status is here already.
  void Cancel();

 private:
  MessageStream(std::unique_ptr<grpc::ClientContext> context, Events events);
  ~MessageStream() override = default;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<grpc::ClientContext> context_;
  Events events_;                 // of gRPC's threads
  grpc::ByteBuffer read_buffer_;  // likewise

  Mutex mutex_;
  std::deque<grpc::ByteBuffer> to_write_ ABSL_GUARDED_BY(mutex_);  // the first is gRPC's: writing_
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // WritesDone was called
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;     // nothing more may be handed to gRPC
  std::shared_ptr<MessageStream> self_;             // until the call has ended
};

}  // namespace canopy::client

#endif  // CLIENT_MESSAGE_STREAM_H_
