// What the reactors of all unary calls share: admission, cancellation, metrics, the one way to
// finish.
#ifndef SERVER_CALL_REACTOR_H_
#define SERVER_CALL_REACTOR_H_

#include <atomic>
#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/slice.h"
#include "server/score_service.h"

namespace canopy::server {

// One call. Deletes itself when gRPC is done with it, which is after Answer.
class CallReactor : public grpc::ServerUnaryReactor {
 public:
  CallReactor(Method method, grpc::CallbackServerContext* call, ServiceContext* context);
  CallReactor(const CallReactor&) = delete;
  CallReactor& operator=(const CallReactor&) = delete;

 protected:
  ~CallReactor() override = default;

  // What serves the call when it is let in; null = the call has been answered.
  const ServingState* Enter();
  // Exactly once a call, from any thread; nothing of the reactor may be used afterwards.
  void Answer(const absl::Status& status);

  ServiceContext& context() const { return context_; }
  // Whether the client is gone or its deadline has passed, as far as gRPC has noticed.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // The client's deadline on the monotonic clock; max = none.
  std::chrono::steady_clock::time_point Deadline() const;

 private:
  void OnCancel() override;
  void OnDone() override { delete this; }

  const Method method_;
  grpc::CallbackServerContext& call_;
  ServiceContext& context_;
  std::atomic<bool> cancelled_{false};
  bool entered_ = false;
};

// The bytes of `buffer` as one run, without a copy where they are one.
grpc::Slice SingleSlice(const grpc::ByteBuffer& buffer);

inline absl::string_view ViewOf(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

}  // namespace canopy::server

#endif  // SERVER_CALL_REACTOR_H_
