#include "client/load/traffic/stream_sender.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/error_details.h"
#include "client/load/traffic/killable_connection.h"
#include "client/message_stream.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace canopy::client {
namespace {

constexpr char kStreamMethod[] = "/canopy.v1.Scorer/ScoreStream";
// The time that a server has to end a stream without unanswered requests.
constexpr absl::Duration kMaxCloseWait = absl::Seconds(30);

}  // namespace

// One stream, from its opening to its end.
struct StreamSender::Session {
  explicit Session(Slot* slot_of) : slot(slot_of) {}

  Slot* const slot;
  std::unique_ptr<KillableConnection> killable;  // set if connections may be cut
  v1::ScoreResponse answer;                      // used by gRPC's thread; kept for its memory

  // The slot's mutex guards everything below.
  std::shared_ptr<MessageStream> stream;
  absl::flat_hash_map<std::string, std::unique_ptr<LoadCall>> in_flight;  // by request_id
  Ending ending;
};

// One connection and its current stream.
struct StreamSender::Slot {
  size_t target = 0;
  int lane = 0;
  std::shared_ptr<grpc::Channel> channel;

  Mutex mutex;
  std::shared_ptr<Session> session ABSL_GUARDED_BY(mutex);  // null: the next call opens one
};

StreamSender::StreamSender(SenderOptions options, SenderEvents events)
    : options_(std::move(options)), events_(std::move(events)) {
  for (size_t target = 0; target < options_.targets.size(); ++target) {
    ClientOptions client = options_.client;
    client.target = options_.targets[target].address;
    for (int i = 0; i < options_.connections; ++i) {
      auto slot = std::make_unique<Slot>();
      slot->target = target;
      slot->lane = static_cast<int>(slots_.size()) % options_.lanes;
      slot->channel = OpenChannel(client);
      slots_.push_back(std::move(slot));
    }
  }
}

StreamSender::~StreamSender() { Close(); }

absl::Status StreamSender::Open(Slot* slot) {
  slot->mutex.AssertHeld();
  auto session = std::make_shared<Session>(slot);
  std::shared_ptr<grpc::Channel> channel = slot->channel;
  if (options_.kills) {
    auto killable = KillableConnection::Open(options_.targets[slot->target].address);
    if (!killable.ok()) {
      return killable.status();
    }
    session->killable = *std::move(killable);
    channel = session->killable->channel();
  }
  {
    MutexLock lock(&mutex_);
    ++num_sessions_;
  }
  session->stream = MessageStream::Open(
      channel, kStreamMethod, NewContext(options_),
      {[this, session](grpc::ByteBuffer* message) { Take(session.get(), message); },
       [this, session](const grpc::Status& status) { End(session.get(), ToAbslStatus(status)); },
       // Counted down here and not in End, because gRPC's thread still holds a channel in End. If
       // that were the last channel of the process, gRPC would stop the thread from itself.
       [this] {
         MutexLock lock(&mutex_);
         --num_sessions_;
       }});
  slot->session = std::move(session);
  return absl::OkStatus();
}

void StreamSender::Send(std::unique_ptr<LoadCall> call) {
  Slot& slot = *slots_[call->target * static_cast<size_t>(options_.connections) + call->connection];
  const grpc::ByteBuffer bytes = RequestBytes(*call);
  std::shared_ptr<MessageStream> stream;
  absl::Status opened;
  {
    MutexLock lock(&slot.mutex);
    if (slot.session == nullptr) {
      opened = Open(&slot);
    }
    if (opened.ok()) {
      stream = slot.session->stream;
      std::string request_id = call->request_id;
      slot.session->in_flight.emplace(std::move(request_id), std::move(call));
    }
  }
  if (!opened.ok()) {
    events_.on_end(slot.lane, std::move(call), {opened, nullptr, absl::nullopt, ""});
    return;
  }
  // Has no effect if the stream has ended meanwhile, and with it the call.
  stream->Write(bytes);
}

void StreamSender::Take(Session* session, grpc::ByteBuffer* message) {
  Slot& slot = *session->slot;
  v1::ScoreResponse& answer = session->answer;
  if (!grpc::SerializationTraits<v1::ScoreResponse>::Deserialize(message, &answer).ok()) {
    events_.on_unmatched(slot.target, "not a ScoreResponse");
    return;
  }
  std::unique_ptr<LoadCall> call;
  {
    MutexLock lock(&slot.mutex);
    const auto found = session->in_flight.find(answer.request_id());
    if (found != session->in_flight.end()) {
      call = std::move(found->second);
      session->in_flight.erase(found);
    }
  }
  if (call == nullptr) {
    events_.on_unmatched(slot.target,
                         absl::StrCat("answer to request '", answer.request_id(),
                                      "', which is answered already or was never sent"));
    return;
  }
  CallEnd end;
  if (!answer.has_error()) {
    end.answer = &answer;
  } else if (answer.error().code() == 0) {
    end.problem = "error without a code";
  } else {
    end.status = ToAbslStatus(answer.error());
  }
  events_.on_end(slot.lane, std::move(call), std::move(end));
}

void StreamSender::End(Session* session, const absl::Status& status) {
  Slot& slot = *session->slot;
  absl::flat_hash_map<std::string, std::unique_ptr<LoadCall>> unanswered;
  CallEnd end;
  end.status = status;
  {
    MutexLock lock(&slot.mutex);
    if (slot.session.get() == session) {
      slot.session.reset();
    }
    unanswered.swap(session->in_flight);
    session->stream.reset();
    end.given_up = session->ending.given_up;
    if (!session->ending.failure.ok()) {
      end.status = session->ending.failure;
    }
  }
  if (end.status.ok() && !end.given_up.has_value()) {
    end.problem = "the stream ended without its answer";
  }
  for (auto& [id, call] : unanswered) {
    events_.on_end(slot.lane, std::move(call), end);
  }
}

// Ends a session early. Later calls open a new stream.
void StreamSender::EndEarly(const std::shared_ptr<Session>& session, const Ending& ending) {
  Slot& slot = *session->slot;
  std::shared_ptr<MessageStream> stream;
  {
    MutexLock lock(&slot.mutex);
    if (slot.session != session) {
      return;
    }
    slot.session.reset();
    session->ending = ending;
    stream = session->stream;
  }
  if (ending.given_up == CallOutcome::kKilled && session->killable != nullptr) {
    session->killable->Kill();
  } else {
    stream->Cancel();
  }
}

void StreamSender::Abandon(uint64_t id) {
  const std::string request_id = LoadRequestId(id);
  for (const std::unique_ptr<Slot>& slot : slots_) {
    std::shared_ptr<Session> session;
    Ending ending;
    {
      MutexLock lock(&slot->mutex);
      if (slot->session == nullptr) {
        continue;
      }
      const auto found = slot->session->in_flight.find(request_id);
      if (found == slot->session->in_flight.end()) {
        continue;
      }
      session = slot->session;
      ending.given_up = found->second->planned_outcome;
    }
    EndEarly(session, ending);
    return;
  }
}

void StreamSender::EndOverdue(absl::Duration now) {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    std::shared_ptr<Session> session;
    bool overdue = false;
    {
      MutexLock lock(&slot->mutex);
      session = slot->session;
      if (session != nullptr) {
        for (const auto& [id, call] : session->in_flight) {
          overdue = overdue || now - call->sent > call->time_left;
        }
      }
    }
    if (overdue) {
      EndEarly(session, {absl::nullopt, absl::DeadlineExceededError("no answer in time")});
    }
  }
}

void StreamSender::Close() {
  std::vector<std::shared_ptr<Session>> sessions;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    MutexLock lock(&slot->mutex);
    if (slot->session != nullptr) {
      slot->session->stream->WritesDone();
      sessions.push_back(slot->session);
    }
  }
  bool over = false;
  {
    MutexLock lock(&mutex_);
    over = mutex_.AwaitWithTimeout(Condition(this, &StreamSender::NoSessions), kMaxCloseWait);
  }
  if (!over) {
    for (const std::shared_ptr<Session>& session : sessions) {
      EndEarly(session, {absl::nullopt, absl::DeadlineExceededError("the stream did not end")});
    }
    MutexLock lock(&mutex_);
    mutex_.Await(Condition(this, &StreamSender::NoSessions));
  }
}

}  // namespace canopy::client
