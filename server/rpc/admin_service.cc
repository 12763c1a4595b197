#include "server/rpc/admin_service.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status_details.h"
#include "server/rpc/call_reactor.h"
#include "server/wire/message_bytes.h"
#include "server/wire/model_message.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

constexpr absl::Duration kBusyRetryDelay = absl::Seconds(1);

// Loading may be slow, but must not slow down requests. The threads that LibTorch starts here
// inherit the priority. If the system refuses, loading has the priority of the other threads.
void LowerPriorityOfThisThread() {
  constexpr int kNice = 10;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

absl::StatusOr<WeightRequest> ReadWeightRequest(absl::string_view message) {
  v1::LoadWeightsRequest request;
  if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    Violations violations;
    violations.Add("LoadWeightsRequest", "the bytes are not a canopy.v1.LoadWeightsRequest");
    return violations.ToStatus();
  }
  return WeightRequest{request.model(), request.source(), request.expected_fingerprint()};
}

}  // namespace

// One LoadWeights call.
class LoadCall final : public CallReactor {
 public:
  LoadCall(grpc::CallbackServerContext* call, AdminService* service, grpc::ByteBuffer* response)
      : CallReactor(Method::kLoadWeights, call, &service->context_),
        service_(*service),
        response_(*response) {}

  void Start(const grpc::ByteBuffer& bytes) {
    serving_ = Enter();
    if (serving_ == nullptr) {
      return;
    }
    const grpc::Slice message = SingleSlice(bytes);
    absl::StatusOr<WeightRequest> request = ReadWeightRequest(ViewOf(message));
    absl::Status refused = request.ok() ? CheckSourceName(request->source) : request.status();
    if (refused.ok() && service_.loading_.exchange(true)) {
      refused = WithRetryAfter(ErrorFor(ErrorReason::kLoadBusy, "other weights are being loaded"),
                               kBusyRetryDelay);
    }
    if (!refused.ok()) {
      Answer(refused);
      return;
    }
    request_ = *std::move(request);
    // The queue of the pool is not bounded, so the task is accepted.
    (void)service_.loads_.Schedule([this] { Run(); });
  }

 private:
  // Runs on the loading thread.
  void Run() {
    const absl::StatusOr<std::shared_ptr<const ModelInfo>> loaded =
        service_.loader_->Load(request_, [this] { return CheckWanted(); });
    if (loaded.ok()) {
      response_ = ToByteBuffer(ModelMessage(**loaded, serving_->limits));
    }
    service_.loading_.store(false);
    Answer(loaded.status());
  }

  absl::Status CheckWanted() const {
    if (service_.draining_.load()) {
      return DrainingError();
    }
    return cancelled() ? absl::CancelledError("the caller is gone") : absl::OkStatus();
  }

  AdminService& service_;
  const ServingState* serving_ = nullptr;
  WeightRequest request_;
  grpc::ByteBuffer& response_;
};

AdminService::AdminService(ServiceContext* context) : context_(*context) {
  (void)loads_.Schedule(LowerPriorityOfThisThread);
  context_.gate.AddDrainWatcher(this, [this] { draining_.store(true); });
}

AdminService::~AdminService() { context_.gate.RemoveDrainWatcher(this); }

grpc::ServerUnaryReactor* AdminService::LoadWeights(grpc::CallbackServerContext* call,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  auto* reactor = new LoadCall(call, this, response);
  reactor->Start(*request);
  HandOver(reactor);
  return reactor;
}

}  // namespace canopy::server
