// One bidirectional gRPC call in bytes. Many threads may write; received messages arrive one at a
// time. client/score_stream.h interprets the messages.
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

// Thread-safe. Lives until the call has ended, even if nobody holds it any more.
class MessageStream final : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Called on gRPC's threads, one at a time and without locks. They must not wait for this stream.
  struct Events {
    std::function<void(grpc::ByteBuffer* message)> on_message;
    std::function<void(const grpc::Status& status)> on_end;  // called once, after all others
    // Called on the thread that drops the stream last, after the stream has released the channel
    // and the functions above. May be null.
    std::function<void()> on_gone = nullptr;
  };

  // Starts `method`, such as `/package.Service/Method`. `context` contains deadline and metadata.
  static std::shared_ptr<MessageStream> Open(const std::shared_ptr<grpc::Channel>& channel,
                                             const std::string& method,
                                             std::unique_ptr<grpc::ClientContext> context,
                                             Events events);

  // Sends `message` after all earlier ones. Never blocks: the caller bounds the number of unsent
  // messages. The message is dropped if the stream has ended, which on_end reports.
  void Write(const grpc::ByteBuffer& message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells the server that there are no further messages. The server then ends the stream.
  void WritesDone() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call now, with CANCELLED unless the server's status has already arrived.
  void Cancel();

 private:
  MessageStream(std::unique_ptr<grpc::ClientContext> context, Events events);
  ~MessageStream() override = default;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<grpc::ClientContext> context_;
  Events events_;                 // used by gRPC's threads
  grpc::ByteBuffer read_buffer_;  // used by gRPC's threads

  Mutex mutex_;
  // gRPC owns the first one while writing_ is true
  std::deque<grpc::ByteBuffer> to_write_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // WritesDone was called
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;     // nothing more may be passed to gRPC
  std::shared_ptr<MessageStream> self_;             // set until the call has ended
};

}  // namespace canopy::client

#endif  // CLIENT_MESSAGE_STREAM_H_
