// The base of the reactors of all unary calls: admission, cancellation, metrics, the one way to
// finish, and a timeout for clients that do not read the answer.
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

// Returns the value of a client's metadata; '' if the key is missing or occurs more than once.
absl::string_view FindMetadata(const grpc::CallbackServerContext& call, const char* key);

// Returns the client's deadline on the monotonic clock; max = no deadline.
std::chrono::steady_clock::time_point DeadlineOf(const grpc::CallbackServerContext& call);

// One call. It deletes itself when gRPC is done with it, which is after Answer.
class CallReactor : public grpc::ServerUnaryReactor {
 public:
  CallReactor(Method method, grpc::CallbackServerContext* call, ServiceContext* context);
  CallReactor(const CallReactor&) = delete;
  CallReactor& operator=(const CallReactor&) = delete;

 protected:
  ~CallReactor() override = default;

  // Admits the call and returns the objects that serve it. Null = the call has been answered.
  const ServingState* Enter();
  // Answers the call. Must be called exactly once, on any thread. The reactor must not be used
  // afterwards.
  void Answer(const absl::Status& status);

  ServiceContext& context() const { return context_; }
  // Returns whether gRPC has noticed that the client left or that its deadline passed.
  bool cancelled() const { return cancelled_.load(); }
  // Adds fields to the call's log line, which already has its method, peer and time.
  virtual void Describe(RequestRecord* /*record*/) const {}
  // Called on any thread after cancelled() has become true, unless the call is answered before.
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
