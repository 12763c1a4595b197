// What the reactors of all unary calls share: admission, cancellation, metrics, the one way to
// finish, and an end for clients that do not read the answer.
#ifndef SERVER_RPC_CALL_REACTOR_H_
#define SERVER_RPC_CALL_REACTOR_H_

#include <atomic>
#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/stopwatch.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/net/write_watchdog.h"
#include "server/rpc/score_work.h"
#include "server/rpc/service_context.h"

namespace canopy::server {

// The value of a client's metadata; '' when it is not there, or more than once.
absl::string_view FindMetadata(const grpc::CallbackServerContext& call, const char* key);

// The client's deadline on the monotonic clock; max = none.
std::chrono::steady_clock::time_point DeadlineOf(const grpc::CallbackServerContext& call);

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
  bool cancelled() const { return cancelled_.load(); }
  // What the call's log line adds to its method, peer and time.
  virtual void Describe(RequestRecord* /*record*/) const {}
  // Called once cancelled() has become true, unless the call is answered before; from any thread.
  virtual void Abandoned() {}
  Caller caller() const { return {call_.peer(), DeadlineOf(call_)}; }

 private:
  void Log(const WireError& error);
  void OnCancel() override;
  void OnDone() override;

  const Method method_;
  grpc::CallbackServerContext& call_;
  ServiceContext& context_;
  const Stopwatch total_;
  WriteWatchdog::Writer writer_;
  std::atomic<bool> cancelled_{false};
  bool entered_ = false;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_CALL_REACTOR_H_
