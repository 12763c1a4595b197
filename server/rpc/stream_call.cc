#include "server/rpc/stream_call.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "canopy/v1/scorer.pb.h"
#include "server/rpc/call_reactor.h"
#include "server/telemetry/trace_context.h"
#include "server/wire/grpc_status.h"
#include "server/wire/message_bytes.h"
#include "server/wire/request_head.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

grpc::ByteBuffer ErrorResponse(const std::string& request_id, const grpc::Status& status) {
  v1::ScoreResponse response;
  response.set_request_id(request_id);
  google::rpc::Status* error = response.mutable_error();
  if (!error->ParseFromString(status.error_details()) || error->code() == 0) {
    error->set_code(static_cast<int>(status.error_code()));
    error->set_message(status.error_message());
  }
  return ToByteBuffer(response);
}

absl::Status RequestIdError(const std::string& text) {
  Violations violations;
  violations.Add("request_id", text);
  return violations.ToStatus();
}

}  // namespace

StreamCall::StreamCall(grpc::CallbackServerContext* call, ServiceContext* context)
    : context_(*context),
      caller_{call->peer(), DeadlineOf(*call)},
      traceparent_(context->request_log.on() ? FindMetadata(*call, kTraceparentKey) : ""),
      entered_(context->gate.Enter().ok()),
      writer_(&context->writes, [call] { call->TryCancel(); }) {
  context_.metrics.CallStarted(Method::kScoreStream);
  context_.gate.AddDrainWatcher(this, [this] { OnDrain(); });
  MutexLock lock(&mutex_);
  Proceed();
}

bool StreamCall::MayRead() const {
  return !reading_ && !client_finished_ && !abandoned_ && !draining_ &&
         unanswered_ < context_.max_stream_in_flight;
}

absl::Status StreamCall::FinalStatus() const {
  if (abandoned_) {
    return absl::CancelledError("the caller is gone");
  }
  return draining_ && !client_finished_ ? DrainingError() : absl::OkStatus();
}

// gRPC calls back on other threads, so these callbacks run after the lock is released.
void StreamCall::Proceed() {
  if (finished_) {
    return;
  }
  HandOver(this);
  if (!writing_ && !answers_.empty()) {
    writing_ = true;
    writer_.Started();
    StartWrite(&answers_.front().bytes);
  }
  if (MayRead()) {
    reading_ = true;
    StartRead(&read_buffer_);
  }
  if (unanswered_ == 0 && (client_finished_ || abandoned_ || draining_)) {
    finished_ = true;
    end_ = ToWireError(FinalStatus());
    context_.metrics.CallFinished(Method::kScoreStream, end_.status.error_code(), end_.reason);
    Finish(end_.status);
  }
}

void StreamCall::OnReadDone(bool ok) {
  const CallbackScope scope(this);
  bool wanted = false;
  if (ok) {
    MutexLock lock(&mutex_);
    // A cancelled stream without unanswered requests has finished, even if gRPC was still reading.
    // gRPC then deletes the call when this method returns, even if a request were in progress.
    wanted = !finished_;
    unanswered_ += wanted ? 1 : 0;
    requests_ += wanted ? 1 : 0;
  }
  if (wanted) {
    const grpc::Slice message = SingleSlice(read_buffer_);
    read_buffer_.Clear();
    Take(message);
  }
  MutexLock lock(&mutex_);
  reading_ = false;
  client_finished_ = client_finished_ || !ok;
  Proceed();
}

void StreamCall::Take(const grpc::Slice& message) {
  std::string request_id;
  bool entered = false;
  const absl::StatusOr<RequestHead> head = ReadRequestHead(ViewOf(message));
  absl::Status begun = head.status();
  if (head.ok()) {
    request_id = std::string(head->request_id);
    begun = Begin(request_id, message, &entered);
  }
  if (!begun.ok()) {
    Complete(request_id, begun, entered, nullptr);
  }
}

absl::Status StreamCall::Begin(const std::string& request_id, const grpc::Slice& message,
                               bool* entered) {
  if (request_id.empty()) {
    return RequestIdError("a request of a stream needs one");
  }
  const auto work = std::make_shared<ScoreWork>(&context_);
  {
    MutexLock lock(&mutex_);
    if (in_flight_.contains(request_id)) {
      return RequestIdError(
          absl::StrCat("\"", QuotedForError(request_id), "\" is in flight already"));
    }
  }
  const absl::StatusOr<const ServingState*> serving = context_.gate.Enter();
  if (!serving.ok()) {
    return serving.status();
  }
  *entered = true;
  {
    MutexLock lock(&mutex_);
    in_flight_.emplace(request_id, work);
  }
  // in_flight_ owns the work until it has called back.
  absl::Status started = work->Start(
      (*serving)->engine, message, caller_,
      [this, request_id, running = work.get()](absl::StatusOr<grpc::ByteBuffer> answer) {
        Complete(request_id, std::move(answer), true, running);
      });
  bool abandoned = false;
  {
    MutexLock lock(&mutex_);
    abandoned = abandoned_;
    if (!started.ok()) {
      in_flight_.erase(request_id);
    }
  }
  if (abandoned) {
    work->Cancel();
  }
  return started;
}

void StreamCall::Complete(const std::string& request_id, absl::StatusOr<grpc::ByteBuffer> answer,
                          bool entered, const ScoreWork* work) {
  const WireError error = ToWireError(answer.status());
  const grpc::Status& status = error.status;
  context_.metrics.StreamRequestFinished(status.error_code(), error.reason);
  if (context_.request_log.Wants(error)) {
    Log(request_id, error, work);
  }
  CallGate& gate = context_.gate;
  std::shared_ptr<ScoreWork> ended;
  bool dropped = false;
  {
    MutexLock lock(&mutex_);
    // From now on the client may use the id again, because it can have the answer before gRPC
    // reports the write.
    if (const auto found = in_flight_.find(request_id); entered && found != in_flight_.end()) {
      ended = std::move(found->second);
      in_flight_.erase(found);
    }
    dropped = abandoned_;
    if (dropped) {
      --unanswered_;
    } else {
      answers_.push_back({answer.ok() ? *std::move(answer) : ErrorResponse(request_id, status),
                          entered, std::move(ended)});
    }
    Proceed();
  }
  if (dropped && entered) {
    gate.Leave();
  }
}

void StreamCall::Log(const std::string& request_id, const WireError& error,
                     const ScoreWork* work) const {
  RequestRecord record;
  record.method = Method::kScoreStream;
  record.request_id = request_id;
  record.traceparent = traceparent_;
  record.peer = caller_.client;
  if (work != nullptr) {
    record.total_ms = work->elapsed_ms();
    record.scored = work->observation();
  }
  (void)context_.request_log.Write(record, error);
}

void StreamCall::OnWriteDone(bool ok) {
  const CallbackScope scope(this);
  writer_.Done();
  bool entered = false;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    entered = answers_.front().entered;
    answers_.pop_front();
    --unanswered_;
    if (ok || abandoned_) {
      Proceed();
    }
  }
  if (entered) {
    context_.gate.Leave();
  }
  if (!ok) {
    // The stream is broken.
    OnCancel();
  }
}

void StreamCall::OnCancel() {
  const CallbackScope scope(this);
  std::vector<std::shared_ptr<ScoreWork>> works;
  int64_t left = 0;
  {
    MutexLock lock(&mutex_);
    if (abandoned_) {
      return;
    }
    abandoned_ = true;
    for (const auto& [id, work] : in_flight_) {
      works.push_back(work);
    }
    // The answer that gRPC is writing comes back through OnWriteDone.
    while (answers_.size() > (writing_ ? 1 : 0)) {
      left += answers_.back().entered ? 1 : 0;
      answers_.pop_back();
      --unanswered_;
    }
    Proceed();
  }
  for (; left > 0; --left) {
    context_.gate.Leave();
  }
  for (const auto& work : works) {
    work->Cancel();
  }
}

void StreamCall::OnDrain() {
  MutexLock lock(&mutex_);
  draining_ = true;
  Proceed();
}

void StreamCall::OnDone() {
  TakeOver(this);
  context_.gate.RemoveDrainWatcher(this);
  int64_t requests = 0;
  WireError end;
  {
    // The thread that called Finish may still hold the mutex.
    MutexLock lock(&mutex_);
    requests = requests_;
    end = std::move(end_);
  }
  context_.request_log.WriteStreamEnd({traceparent_, caller_.client, requests, total_.ElapsedMs()},
                                      end);
  if (entered_) {
    context_.gate.Leave();
  }
  delete this;
}

}  // namespace canopy::server
