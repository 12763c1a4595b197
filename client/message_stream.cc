#include "client/message_stream.h"

#include <utility>

#include "grpcpp/generic/generic_stub.h"

namespace canopy::client {

MessageStream::MessageStream(std::unique_ptr<grpc::ClientContext> context, Events events)
    : context_(std::move(context)), events_(std::move(events)) {}

std::shared_ptr<MessageStream> MessageStream::Open(const std::shared_ptr<grpc::Channel>& channel,
                                                   const std::string& method,
                                                   std::unique_ptr<grpc::ClientContext> context,
                                                   Events events) {
  std::function<void()> on_gone = std::move(events.on_gone);
  std::shared_ptr<MessageStream> stream(new MessageStream(std::move(context), std::move(events)),
                                        [on_gone = std::move(on_gone)](MessageStream* owned) {
                                          delete owned;
                                          if (on_gone) {
                                            on_gone();
                                          }
                                        });
  stream->self_ = stream;
  grpc::GenericStub(channel).PrepareBidiStreamingCall(stream->context_.get(), method, {},
                                                      stream.get());
  // The hold is for writes, which do not come from gRPC's threads. It is released when reading
  // ends.
  stream->AddHold();
  HandOver(stream.get());
  stream->StartRead(&stream->read_buffer_);
  stream->StartCall();
  return stream;
}

void MessageStream::Write(const grpc::ByteBuffer& message) {
  MutexLock lock(&mutex_);
  if (!closed_ && !finishing_) {
    to_write_.push_back(message);
    Proceed();
  }
}

void MessageStream::WritesDone() {
  MutexLock lock(&mutex_);
  finishing_ = true;
  Proceed();
}

void MessageStream::Cancel() { context_->TryCancel(); }

// gRPC calls back on other threads, so these callbacks run after the lock is released.
void MessageStream::Proceed() {
  if (closed_ || writing_) {
    return;
  }
  HandOver(this);
  if (!to_write_.empty()) {
    writing_ = true;
    StartWrite(&to_write_.front());
  } else if (finishing_) {
    closed_ = true;
    StartWritesDone();
  }
}

void MessageStream::OnWriteDone(bool ok) {
  const CallbackScope scope(this);
  MutexLock lock(&mutex_);
  writing_ = false;
  to_write_.pop_front();
  closed_ = closed_ || !ok;
  Proceed();
}

void MessageStream::OnReadDone(bool ok) {
  const CallbackScope scope(this);
  if (ok) {
    events_.on_message(&read_buffer_);
    read_buffer_.Clear();
    HandOver(this);
    StartRead(&read_buffer_);
    return;
  }
  MutexLock lock(&mutex_);
  closed_ = true;
  RemoveHold();
}

void MessageStream::OnDone(const grpc::Status& status) {
  TakeOver(this);
  const std::shared_ptr<MessageStream> self = std::move(self_);
  const Events events = std::move(events_);
  events.on_end(status);
}

}  // namespace canopy::client
