#include "client/score_stream.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "client/answer_check.h"
#include "client/call_deadline.h"
#include "client/error_details.h"
#include "client/message_stream.h"
#include "client/token_forms.h"
#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace canopy::client {
namespace {

constexpr char kMethod[] = "/canopy.v1.Scorer/ScoreStream";
// The object of HandOver and TakeOver for callbacks of alarms. It is not the State, because reading
// what a callback has captured must already come after TakeOver.
constexpr char kAlarmOrder = 0;

absl::Status WrongAnswer(absl::string_view problem) {
  return absl::DataLossError(absl::StrCat("wrong answer from the server: ", problem));
}

// Converts the response to one request.
ScoreStream::Answer ToAnswer(const v1::ScoreRequest& request, v1::ScoreResponse response) {
  if (response.has_error()) {
    return response.error().code() == 0 ? WrongAnswer("error without a code")
                                        : ToAbslStatus(response.error());
  }
  if (absl::Status status = CheckScoreResponse(request, response); !status.ok()) {
    return status;
  }
  return response;
}

}  // namespace

// The state that the stream shares with gRPC's callbacks, which may outlive the stream.
class ScoreStream::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(const Limits& limits) : limits_(limits) {}

  void Open(const std::shared_ptr<grpc::Channel>& channel) {
    MutexLock lock(&mutex_);
    const auto self = shared_from_this();
    auto context = std::make_unique<grpc::ClientContext>();
    if (!limits_.traceparent.empty()) {
      context->AddMetadata("traceparent", limits_.traceparent);
    }
    stream_ =
        MessageStream::Open(channel, kMethod, std::move(context),
                            {[self](grpc::ByteBuffer* message) { self->Take(message); },
                             [self](const grpc::Status& status) {
                               self->End(NameProxy(ToAbslStatus(status), self->limits_.proxy));
                             },
                             // The stream's owner waits for this, and not for the end: gRPC's
                             // thread still holds a channel then. If that were the last one of the
                             // process, gRPC would stop that thread from itself.
                             [gone = gone_] { gone->Notify(); }});
  }

  // Sends a request. Returns false if it would have to wait and `may_wait` is false.
  bool Send(v1::ScoreRequest request, Callback done, bool may_wait) {
    absl::Status problem = NarrowRaw64(&request);
    if (problem.ok()) {
      problem = CheckSize(request);
    }
    if (problem.ok()) {
      MutexLock lock(&mutex_);
      if (may_wait) {
        mutex_.Await(Condition(this, &State::HasRoom));
      } else if (!HasRoom()) {
        return false;
      }
      problem = Admit(&request, &done);
    }
    if (!problem.ok()) {
      done(problem);
    }
    return true;
  }

  absl::Status Finish() {
    bool done = false;
    {
      MutexLock lock(&mutex_);
      finishing_ = true;
      stream_->WritesDone();
      // By then the deadline of every request has passed.
      done = mutex_.AwaitWithTimeout(Condition(&done_), limits_.deadline);
    }
    if (!done) {
      Fail(absl::DeadlineExceededError(absl::StrCat("the server did not end the stream within ",
                                                    absl::FormatDuration(limits_.deadline))));
    }
    MutexLock lock(&mutex_);
    mutex_.Await(Condition(&done_));
    return *end_;
  }

  // Ends the stream. Every unanswered request gets `reason`, unless another error came first.
  void Fail(const absl::Status& reason) {
    std::shared_ptr<MessageStream> stream;
    {
      MutexLock lock(&mutex_);
      failure_ = failure_.value_or(reason);
      stream = stream_;
    }
    if (stream != nullptr) {
      stream->Cancel();
    }
  }

  // Waits until the last callback has returned and all objects of the call are gone.
  void AwaitGone() {
    std::shared_ptr<MessageStream> stream;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(Condition(&done_));
      stream = std::move(stream_);
    }
    stream.reset();
    gone_->WaitForNotification();
  }

  size_t num_in_flight() const {
    MutexLock lock(&mutex_);
    return pending_.size();
  }

 private:
  struct Pending {
    v1::ScoreRequest request;
    Callback done;
    uint64_t number = 0;  // counts all requests of the stream
  };
  struct Due {
    gpr_timespec at;  // on the monotonic clock
    std::string request_id;
    uint64_t number;
  };

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pending_.size() < static_cast<size_t>(limits_.max_in_flight) || end_.has_value();
  }

  absl::Status CheckSize(const v1::ScoreRequest& request) const {
    const size_t size_bytes = request.ByteSizeLong();
    return size_bytes <= static_cast<size_t>(limits_.max_request_bytes)
               ? absl::OkStatus()
               : absl::ResourceExhaustedError(
                     absl::StrCat("request of ", size_bytes, " bytes exceeds max_request_bytes ",
                                  limits_.max_request_bytes, "; not sent"));
  }

  // Sends the request and takes ownership of it, or returns an error.
  absl::Status Admit(v1::ScoreRequest* request, Callback* done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (end_.has_value() || failure_.has_value()) {
      const absl::Status status = end_.has_value() ? *end_ : *failure_;
      return status.ok() ? absl::UnavailableError("the server has ended the stream") : status;
    }
    if (finishing_) {
      return absl::FailedPreconditionError("the stream is being finished");
    }
    const uint64_t number = ++num_sent_;
    if (request->request_id().empty()) {
      request->set_request_id(absl::StrCat("canopy-stream-", number));
    }
    const std::string& id = request->request_id();
    if (pending_.contains(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("request_id: \"", id, "\" is in flight already"));
    }
    grpc::ByteBuffer bytes;
    bool owns_bytes = false;
    if (const grpc::Status status =
            grpc::SerializationTraits<v1::ScoreRequest>::Serialize(*request, &bytes, &owns_bytes);
        !status.ok()) {
      return ToAbslStatus(status);
    }
    due_.push_back({DeadlineAfter(limits_.deadline), id, number});
    stream_->Write(bytes);
    pending_.emplace(id, Pending{std::move(*request), std::move(*done), number});
    if (alarm_ == nullptr) {
      WatchFirstDue();
    }
    return absl::OkStatus();
  }

  void Take(grpc::ByteBuffer* message) ABSL_LOCKS_EXCLUDED(mutex_) {
    v1::ScoreResponse response;
    if (!grpc::SerializationTraits<v1::ScoreResponse>::Deserialize(message, &response).ok()) {
      Fail(WrongAnswer("not a ScoreResponse"));
      return;
    }
    Pending answered;
    {
      MutexLock lock(&mutex_);
      if (failure_.has_value()) {
        return;  // nobody waits for the answer
      }
      const auto found = pending_.find(response.request_id());
      if (found != pending_.end()) {
        answered = std::move(found->second);
        pending_.erase(found);
      }
    }
    if (answered.done == nullptr) {
      Fail(WrongAnswer("request_id is that of no request in flight"));
      return;
    }
    answered.done(ToAnswer(answered.request, std::move(response)));
  }

  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::flat_hash_map<std::string, Pending> unanswered;
    {
      MutexLock lock(&mutex_);
      alarm_.reset();
      unanswered.swap(pending_);
      if (failure_.has_value()) {
        status = *failure_;
      } else if (status.ok() && !unanswered.empty()) {
        status = WrongAnswer(
            absl::StrCat("the stream ended with ", unanswered.size(), " requests unanswered"));
      }
      end_ = status;
    }
    for (auto& [id, pending] : unanswered) {
      pending.done(status);
    }
    MutexLock lock(&mutex_);
    done_ = true;
  }

  // Sets a timer for the deadline of the oldest request. Requests that are answered by then are
  // skipped.
  void WatchFirstDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!due_.empty() && !IsPending(due_.front())) {
      due_.pop_front();
    }
    alarm_.reset();
    if (due_.empty() || end_.has_value()) {
      return;
    }
    alarm_ = std::make_unique<grpc::Alarm>();
    std::function<void(bool)> check = [self = shared_from_this()](bool fired) {
      TakeOver(&kAlarmOrder);
      if (fired) {
        self->CheckDue();
      }
    };
    HandOver(&kAlarmOrder);
    alarm_->Set(due_.front().at, std::move(check));
  }

  bool IsPending(const Due& due) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = pending_.find(due.request_id);
    return found != pending_.end() && found->second.number == due.number;
  }

  void CheckDue() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (due_.empty() || !IsPending(due_.front()) || !HasPassed(due_.front().at)) {
        WatchFirstDue();
        return;
      }
    }
    Fail(absl::DeadlineExceededError(absl::StrCat("a request was not answered within ",
                                                  absl::FormatDuration(limits_.deadline))));
  }

  const Limits limits_;
  // A separate object, because this one may be deleted before the notification.
  const std::shared_ptr<Notification> gone_ = std::make_shared<Notification>();

  mutable Mutex mutex_;
  std::shared_ptr<MessageStream> stream_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Pending> pending_ ABSL_GUARDED_BY(mutex_);  // by request_id
  std::deque<Due> due_ ABSL_GUARDED_BY(mutex_);  // in order of sending
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // an error of this side, before the end of the stream
  absl::optional<absl::Status> failure_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // the last callback has returned
};

ScoreStream::ScoreStream(const std::shared_ptr<grpc::Channel>& channel, const Limits& limits)
    : state_(std::make_shared<State>(limits)) {
  state_->Open(channel);
}

ScoreStream::~ScoreStream() {
  Cancel();
  state_->AwaitGone();
}

void ScoreStream::Send(v1::ScoreRequest request, Callback done) {
  state_->Send(std::move(request), std::move(done), /*may_wait=*/true);
}

std::future<ScoreStream::Answer> ScoreStream::Send(v1::ScoreRequest request) {
  const auto promise = std::make_shared<std::promise<Answer>>();
  Send(std::move(request), [promise](Answer answer) { promise->set_value(std::move(answer)); });
  return promise->get_future();
}

bool ScoreStream::TrySend(v1::ScoreRequest request, Callback done) {
  return state_->Send(std::move(request), std::move(done), /*may_wait=*/false);
}

absl::Status ScoreStream::Finish() { return state_->Finish(); }

void ScoreStream::Cancel() { state_->Fail(absl::CancelledError("the stream was cancelled")); }

size_t ScoreStream::num_in_flight() const { return state_->num_in_flight(); }

}  // namespace canopy::client
