#include "server/rpc/call_reactor.h"

#include <iterator>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/saturating_time.h"
#include "grpc/support/time.h"
#include "server/telemetry/trace_context.h"
#include "server/wire/grpc_status.h"

namespace canopy::server {
namespace {

// A deadline that is further away counts as none, so that no timer has to be kept for it.
constexpr absl::Duration kFarAway = absl::Hours(24 * 365);

constexpr char kRetryPushbackTrailer[] = "grpc-retry-pushback-ms";

}  // namespace

CallReactor::CallReactor(Method method, grpc::CallbackServerContext* call, ServiceContext* context)
    : method_(method),
      call_(*call),
      context_(*context),
      writer_(&context->writes, [call] { call->TryCancel(); }) {
  context_.metrics.CallStarted(method_);
}

const ServingState* CallReactor::Enter() {
  const absl::StatusOr<const ServingState*> serving = context_.gate.Enter();
  if (!serving.ok()) {
    Answer(serving.status());
    return nullptr;
  }
  entered_ = true;
  return *serving;
}

void CallReactor::Answer(const absl::Status& status) {
  WireError error = ToWireError(status);
  if (error.retry_pushback_ms.has_value()) {
    call_.AddTrailingMetadata(kRetryPushbackTrailer, *error.retry_pushback_ms);
  }
  context_.metrics.CallFinished(method_, error.status.error_code(), error.reason);
  if (context_.request_log.Wants(error)) {
    Log(error);
  }
  writer_.Started();
  HandOver(this);
  Finish(error.status);
}

void CallReactor::Log(const WireError& error) {
  const std::string peer = call_.peer();
  RequestRecord record;
  record.method = method_;
  record.traceparent = FindMetadata(call_, kTraceparentKey);
  record.peer = peer;
  record.total_ms = total_.ElapsedMs();
  Describe(&record);
  if (const std::string id = context_.request_log.Write(record, error); !id.empty()) {
    call_.AddTrailingMetadata(kRequestIdTrailer, id);
  }
}

void CallReactor::OnCancel() {
  const CallbackScope scope(this);
  cancelled_.store(true);
  context_.metrics.CallAbandoned(method_);
  Abandoned();
}

// A drain waits until the answer is written, which is now.
void CallReactor::OnDone() {
  TakeOver(this);
  if (entered_) {
    context_.gate.Leave();
  }
  delete this;
}

absl::string_view FindMetadata(const grpc::CallbackServerContext& call, const char* key) {
  const auto [first, last] = call.client_metadata().equal_range(key);
  return first == last || std::next(first) != last
             ? absl::string_view()
             : absl::string_view(first->second.data(), first->second.size());
}

std::chrono::steady_clock::time_point DeadlineOf(const grpc::CallbackServerContext& call) {
  // call.deadline() is not used, because its conversion to std::chrono overflows from 2262 on, and
  // "no deadline" of gRPC for Go and for Java is later than that.
  const gpr_timespec deadline = call.raw_deadline();
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  const absl::Duration time_left = absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
  if (time_left >= kFarAway) {
    return std::chrono::steady_clock::time_point::max();
  }
  return SaturatingAdd(std::chrono::steady_clock::now(), time_left);
}

}  // namespace canopy::server
