// One ScoreStream: many requests in progress, each answered by its request_id when it is ready.
//
// At most `max_stream_in_flight` requests are unanswered, including answers that the client has not
// read yet. The next request is read when there is room, so that HTTP/2's flow control holds back
// both a fast sender and a slow reader. A request that Score would refuse is answered with `error`,
// and the stream goes on. A drain answers the accepted requests and then ends the stream with
// UNAVAILABLE. A client that does not read an answer within `--write_timeout_ms` is disconnected.
#ifndef SERVER_RPC_STREAM_CALL_H_
#define SERVER_RPC_STREAM_CALL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/stopwatch.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/slice.h"
#include "server/net/write_watchdog.h"
#include "server/rpc/score_work.h"
#include "server/rpc/service_context.h"
#include "server/wire/grpc_status.h"

namespace canopy::server {

// Deletes itself when gRPC is done with it. gRPC calls the On... methods on its own threads.
class StreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamCall(grpc::CallbackServerContext* call, ServiceContext* context);

 private:
  // An answer that waits to be written.
  struct Answer {
    grpc::ByteBuffer bytes;
    bool entered = false;             // the answer has its own entry in the call gate
    std::shared_ptr<ScoreWork> work;  // holds the memory reservation; null for most errors
  };

  ~StreamCall() override = default;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void OnDrain() ABSL_LOCKS_EXCLUDED(mutex_);

  void Take(const grpc::Slice& message);
  // Starts a request. OK = it will be answered. Sets `entered` if the request has its own entry in
  // the call gate.
  absl::Status Begin(const std::string& request_id, const grpc::Slice& message, bool* entered);
  // `work` is null for a request that was refused before it had one.
  void Complete(const std::string& request_id, absl::StatusOr<grpc::ByteBuffer> answer,
                bool entered, const ScoreWork* work) ABSL_LOCKS_EXCLUDED(mutex_);
  void Log(const std::string& request_id, const WireError& error, const ScoreWork* work) const;

  // Takes the next step, if there is one: to write, to read or to finish.
  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FinalStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServiceContext& context_;
  const Caller caller_;
  const std::string traceparent_;  // '' if nothing is logged
  const bool entered_;             // the call has an entry in the gate until its own end is written
  const Stopwatch total_;
  WriteWatchdog::Writer writer_;
  grpc::ByteBuffer read_buffer_;  // gRPC owns it during a read

  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<ScoreWork>> in_flight_ ABSL_GUARDED_BY(mutex_);
  // gRPC owns the first one while writing_ is true
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  // requests that were read and whose answer is not written
  int32_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  // a read, or the handling of its result, is in progress
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool client_finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;  // the number of requests read so far
  WireError end_ ABSL_GUARDED_BY(mutex_);         // set when the stream has finished
};

}  // namespace canopy::server

#endif  // SERVER_RPC_STREAM_CALL_H_
