#include "client/load/traffic/unary_sender.h"

#include <thread>
#include <utility>

#include "client/call_deadline.h"
#include "client/channel.h"
#include "client/error_details.h"
#include "client/load/traffic/killable_connection.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace canopy::client {
namespace {

constexpr char kScoreMethod[] = "/canopy.v1.Scorer/Score";

}  // namespace

// A call in flight.
struct UnarySender::Attempt {
  std::unique_ptr<LoadCall> call;
  std::unique_ptr<KillableConnection> killable;
  std::unique_ptr<grpc::GenericStub> killable_stub;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer answer;
  grpc::Status status;
  bool abandoned = false;  // guarded by mutex_ while the call is abandonable
};

// A completion queue, and the thread that serves it.
struct UnarySender::Lane {
  grpc::CompletionQueue queue;
  v1::ScoreResponse answer;  // used by the thread; kept for its memory
  std::thread thread;
};

UnarySender::UnarySender(SenderOptions options, SenderEvents events)
    : options_(std::move(options)), events_(std::move(events)) {
  for (const Target& target : options_.targets) {
    ClientOptions client = options_.client;
    client.target = target.address;
    stubs_.emplace_back();
    for (int i = 0; i < options_.connections; ++i) {
      stubs_.back().push_back(std::make_unique<grpc::GenericStub>(OpenChannel(client)));
    }
  }
  for (int i = 0; i < options_.lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->thread =
        std::thread([this, i, lane = lanes_.back().get()] { Complete(i, lane); });
  }
}

UnarySender::~UnarySender() { Close(); }

void UnarySender::Close() {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->thread.joinable()) {
      lane->queue.Shutdown();
      lane->thread.join();
    }
  }
}

void UnarySender::Send(std::unique_ptr<LoadCall> call) {
  auto* attempt = new Attempt;  // the tag of the call, owned by the queue until it returns it
  const uint64_t lane = call->client < 0 ? call->id : static_cast<uint64_t>(call->client);
  attempt->context = NewContext(options_);
  attempt->context->set_deadline(DeadlineAfter(call->time_left));
  attempt->call = std::move(call);
  grpc::GenericStub* stub = OpenFor(attempt);
  attempt->reader =
      stub->PrepareUnaryCall(attempt->context.get(), kScoreMethod, RequestBytes(*attempt->call),
                             &lanes_[lane % lanes_.size()]->queue);
  if (attempt->call->planned_outcome != CallOutcome::kAnswered) {
    MutexLock lock(&mutex_);
    abandonable_.emplace(attempt->call->id, attempt);
  }
  HandOver(attempt);
  attempt->reader->StartCall();
  attempt->reader->Finish(&attempt->answer, &attempt->status, attempt);
}

// Returns the connection for the call: one of the target's, or one that can be cut. If that one
// cannot be opened, the call uses a shared connection and fails there.
grpc::GenericStub* UnarySender::OpenFor(Attempt* attempt) {
  LoadCall& call = *attempt->call;
  if (call.planned_outcome == CallOutcome::kKilled) {
    auto killable = KillableConnection::Open(options_.targets[call.target].address);
    if (killable.ok()) {
      attempt->killable = *std::move(killable);
      attempt->killable_stub = std::make_unique<grpc::GenericStub>(attempt->killable->channel());
      return attempt->killable_stub.get();
    }
    call.planned_outcome = CallOutcome::kAnswered;
  }
  return stubs_[call.target][call.connection].get();
}

void UnarySender::Abandon(uint64_t id) {
  MutexLock lock(&mutex_);
  const auto found = abandonable_.find(id);
  if (found == abandonable_.end()) {
    return;  // the call has ended
  }
  Attempt& attempt = *found->second;
  attempt.abandoned = true;
  if (attempt.killable != nullptr) {
    attempt.killable->Kill();
  } else {
    attempt.context->TryCancel();
  }
}

void UnarySender::Complete(int index, Lane* lane) {
  void* tag = nullptr;
  bool ok = false;
  while (lane->queue.Next(&tag, &ok)) {
    TakeOver(tag);
    End(index, lane, std::unique_ptr<Attempt>(static_cast<Attempt*>(tag)));
  }
}

void UnarySender::End(int index, Lane* lane, std::unique_ptr<Attempt> attempt) {
  CallEnd end;
  if (attempt->call->planned_outcome != CallOutcome::kAnswered) {
    MutexLock lock(&mutex_);
    abandonable_.erase(attempt->call->id);
    if (attempt->abandoned) {
      end.given_up = attempt->call->planned_outcome;
    }
  }
  if (!attempt->status.ok()) {
    end.status = ToAbslStatus(attempt->status);
  } else if (grpc::SerializationTraits<v1::ScoreResponse>::Deserialize(&attempt->answer,
                                                                       &lane->answer)
                 .ok()) {
    end.answer = &lane->answer;
  } else {
    end.problem = "not a ScoreResponse";
  }
  std::unique_ptr<LoadCall> call = std::move(attempt->call);
  attempt.reset();
  events_.on_end(index, std::move(call), std::move(end));
}

}  // namespace canopy::client
