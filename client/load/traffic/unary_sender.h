// Sends calls as Score, each on its own. Calls that are to be killed have their own connection.
#ifndef CLIENT_LOAD_TRAFFIC_UNARY_SENDER_H_
#define CLIENT_LOAD_TRAFFIC_UNARY_SENDER_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/load/traffic/call_sender.h"
#include "grpcpp/generic/generic_stub.h"

namespace canopy::client {

class UnarySender final : public CallSender {
 public:
  UnarySender(SenderOptions options, SenderEvents events);
  ~UnarySender() override;

  void Send(std::unique_ptr<LoadCall> call) override;
  void Abandon(uint64_t id) override;
  void EndOverdue(absl::Duration /*now*/) override {}  // gRPC ends such calls
  void Close() override;

 private:
  struct Attempt;
  struct Lane;

  grpc::GenericStub* OpenFor(Attempt* attempt);
  void Complete(int index, Lane* lane);
  void End(int index, Lane* lane, std::unique_ptr<Attempt> attempt);

  const SenderOptions options_;
  const SenderEvents events_;
  std::vector<std::vector<std::unique_ptr<grpc::GenericStub>>> stubs_;  // [targets][connections]
  std::vector<std::unique_ptr<Lane>> lanes_;

  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Attempt*> abandonable_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_UNARY_SENDER_H_
