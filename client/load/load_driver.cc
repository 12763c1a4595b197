#include "client/load/load_driver.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/answer_check.h"
#include "client/channel.h"
#include "client/error_details.h"
#include "client/load/answer_compare.h"
#include "client/load/doomed_connection.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"

namespace canopy::client {
namespace {

constexpr char kMethod[] = "/canopy.v1.Scorer/Score";
constexpr size_t kMaxWrongAnswers = 20;
// A closed-loop client that is refused without a delay would refuse itself to death on a dead
// server.
constexpr absl::Duration kRefusedPause = absl::Milliseconds(10);
// How soon the clock looks again while as much as allowed is in flight.
constexpr absl::Duration kFullPause = absl::Microseconds(200);

double DrawShare(std::mt19937_64* random) {
  return static_cast<double>((*random)() >> 11) * 0x1p-53;
}

gpr_timespec DeadlineAfter(absl::Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(duration), GPR_TIMESPAN));
}

grpc::ByteBuffer ToByteBuffer(const std::string& request, const std::string& id_field) {
  const grpc::Slice slices[] = {
      grpc::Slice(request.data(), request.size(), grpc::Slice::STATIC_SLICE),
      grpc::Slice(id_field)};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace

// One request from the instant when it is to be sent to its end, retries included.
struct LoadDriver::Call {
  uint64_t id = 0;
  int client = -1;  // Of the closed loop; -1 = the open loop's.
  const PooledRequest* request = nullptr;
  size_t request_index = 0;
  size_t target = 0;
  size_t connection = 0;
  std::string request_id;
  Fate wish = Fate::kAnswered;  // Or kCancelled, kKilled: to be given up.
  absl::Duration abandon_after;
  absl::Duration intended;
  absl::Duration first_sent;
  absl::Duration sent;
  int attempts = 0;

  // Of the attempt that runs.
  std::unique_ptr<DoomedConnection> doomed;
  std::unique_ptr<grpc::GenericStub> doomed_stub;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer answer;
  grpc::Status status;
  bool abandoned = false;  // Guarded by mutex_ while the call is abandonable.
};

// A completion queue, the thread that empties it, and what that thread has counted.
struct LoadDriver::Worker {
  grpc::CompletionQueue queue;
  v1::ScoreResponse answer;  // The thread's; kept for its memory.

  absl::Mutex mutex;
  std::vector<Tally> targets ABSL_GUARDED_BY(mutex);
  Tally ledger ABSL_GUARDED_BY(mutex);
  Interval interval ABSL_GUARDED_BY(mutex);
  absl::Duration last_end ABSL_GUARDED_BY(mutex);  // Of a call that counts.
  std::thread thread;
};

LoadDriver::LoadDriver(DriverOptions options, const RequestPool* pool)
    : options_(std::move(options)),
      pool_(*pool),
      sending_ends_(options_.warmup + options_.duration),
      arrival_random_(options_.seed) {
  double share = 0;
  for (const Target& target : options_.targets) {
    share += target.share;
    cumulative_shares_.push_back(share);
    ClientOptions client = options_.client;
    client.target = target.address;
    client.max_attempts = 1;
    client.own_connections = true;
    stubs_.emplace_back();
    for (int i = 0; i < options_.connections; ++i) {
      stubs_.back().push_back(std::make_unique<grpc::GenericStub>(OpenChannel(client)));
    }
  }
  for (int i = 0; i < options_.completion_threads; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    absl::MutexLock lock(&workers_.back()->mutex);
    workers_.back()->targets.resize(options_.targets.size());
  }
  for (int client = 0; options_.arrivals == nullptr && client < options_.clients; ++client) {
    // Neighbouring seeds of this generator are unrelated.
    client_random_.emplace_back(options_.seed + static_cast<uint64_t>(client));
  }
}

LoadDriver::~LoadDriver() {
  Stop();
  if (clock_thread_.joinable()) {
    clock_thread_.join();
  }
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->queue.Shutdown();
    if (worker->thread.joinable()) {
      worker->thread.join();
    }
  }
}

void LoadDriver::Start() {
  start_ = std::chrono::steady_clock::now();
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->thread = std::thread([this, worker = worker.get()] { Complete(worker); });
  }
  if (options_.arrivals != nullptr) {
    next_arrival_ = options_.arrivals->Next();
  }
  for (int client = 0; client < static_cast<int>(client_random_.size()); ++client) {
    SendNextOf(client);
  }
  clock_thread_ = std::thread([this] { KeepClock(); });
}

void LoadDriver::Stop() {
  absl::MutexLock lock(&mutex_);
  sending_over_ = true;
  changed_.SignalAll();
}

bool LoadDriver::WaitUntilDone(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&done_), timeout);
}

absl::Duration LoadDriver::Elapsed() const {
  return absl::FromChrono(std::chrono::steady_clock::now() - start_);
}

// --- Sending ---

// Whether one more request may be sent; it then counts as started.
bool LoadDriver::ClaimRequest() {
  if (sending_over_) {
    return false;
  }
  const uint64_t index = started_.fetch_add(1);
  const uint64_t limit = options_.in_order ? pool_.size() : options_.max_requests;
  if ((limit > 0 && index >= limit) || Elapsed() >= sending_ends_) {
    --started_;
    sending_over_ = true;
    return false;
  }
  return true;
}

std::unique_ptr<LoadDriver::Call> LoadDriver::NewCall(int client, absl::Duration intended,
                                                      std::mt19937_64* random) {
  auto call = std::make_unique<Call>();
  call->id = next_id_.fetch_add(1);
  call->client = client;
  call->intended = intended;
  call->request_id = absl::StrCat("load-", call->id);
  const double point = DrawShare(random) * cumulative_shares_.back();
  call->target = static_cast<size_t>(
      std::upper_bound(cumulative_shares_.begin(), cumulative_shares_.end() - 1, point) -
      cumulative_shares_.begin());
  const auto connections = static_cast<uint64_t>(options_.connections);
  call->connection = (client < 0 ? call->id : static_cast<uint64_t>(client)) % connections;
  const double fate = DrawShare(random);
  call->wish = fate < options_.cancel_share                         ? Fate::kCancelled
               : fate < options_.cancel_share + options_.kill_share ? Fate::kKilled
                                                                    : Fate::kAnswered;
  call->abandon_after = DrawShare(random) * options_.abandon_within;
  call->request_index = options_.in_order ? arrival_index_++ : pool_.Draw(random);
  call->request = &pool_.at(call->request_index);
  started_candidates_ += call->request->candidates;
  ++in_flight_;
  return call;
}

void LoadDriver::SendNextOf(int client) {
  if (ClaimRequest()) {
    Send(NewCall(client, Elapsed(), &client_random_[client]));
  }
}

void LoadDriver::Send(std::unique_ptr<Call> owned) {
  Call* call = owned.release();  // Its tag, until its queue returns it.
  call->sent = Elapsed();
  if (++call->attempts == 1) {
    call->first_sent = call->sent;
  }
  call->reader.reset();  // It lives in the memory of the context before.
  call->context = std::make_unique<grpc::ClientContext>();
  call->context->set_deadline(
      DeadlineAfter(options_.client.deadline - (call->sent - call->first_sent)));
  if (!options_.token.empty()) {
    call->context->AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
  }
  grpc::GenericStub* stub = OpenFor(call);
  Worker& worker = *workers_[(call->client < 0 ? call->id : static_cast<uint64_t>(call->client)) %
                             workers_.size()];
  call->reader = stub->PrepareUnaryCall(
      call->context.get(), kMethod,
      ToByteBuffer(call->request->bytes, RequestIdField(call->request_id)), &worker.queue);
  // Before the call can end.
  PlanAbandoning(call);
  call->reader->StartCall();
  call->reader->Finish(&call->answer, &call->status, call);
}

// The connection to send on: one of the target's, or one to be cut. Where that cannot be made the
// call takes its chance on a shared one, and fails there.
grpc::GenericStub* LoadDriver::OpenFor(Call* call) {
  if (call->wish == Fate::kKilled) {
    auto doomed = DoomedConnection::Open(options_.targets[call->target].address);
    if (doomed.ok()) {
      call->doomed = *std::move(doomed);
      call->doomed_stub = std::make_unique<grpc::GenericStub>(call->doomed->channel());
      return call->doomed_stub.get();
    }
    call->wish = Fate::kAnswered;
  }
  return stubs_[call->target][call->connection].get();
}

// --- Giving calls up ---

void LoadDriver::PlanAbandoning(Call* call) {
  if (call->wish == Fate::kAnswered) {
    return;
  }
  absl::MutexLock lock(&mutex_);
  abandonable_.emplace(call->id, call);
  events_.push({call->sent + call->abandon_after, Action::kAbandon, call->id, nullptr});
  changed_.SignalAll();
}

void LoadDriver::Abandon(uint64_t id) {
  const auto found = abandonable_.find(id);
  if (found == abandonable_.end()) {
    return;  // It has ended.
  }
  Call& call = *found->second;
  call.abandoned = true;
  if (call.wish == Fate::kKilled) {
    call.doomed->Kill();
  } else {
    call.context->TryCancel();
  }
}

void LoadDriver::Schedule(Event event) {
  absl::MutexLock lock(&mutex_);
  events_.push(event);
  changed_.SignalAll();
}

// --- The clock ---

void LoadDriver::KeepClock() {
  mutex_.Lock();
  while (true) {
    const absl::Duration now = Elapsed();
    sending_over_ = sending_over_ || now >= sending_ends_;
    if (sending_over_ && in_flight_ == 0) {
      break;
    }
    if (RunDue(now)) {
      continue;
    }
    if (!sending_over_ && next_arrival_.has_value() && *next_arrival_ <= now &&
        in_flight_ < options_.max_in_flight) {
      mutex_.Unlock();
      SendDueArrival();
      mutex_.Lock();
      continue;
    }
    changed_.WaitWithTimeout(&mutex_, NextDue() - now);
  }
  done_ = true;
  mutex_.Unlock();
}

// Runs the first event that is due, if any.
bool LoadDriver::RunDue(absl::Duration now) {
  if (events_.empty() || events_.top().at > now) {
    return false;
  }
  const Event event = events_.top();
  events_.pop();
  if (event.action == Action::kAbandon) {
    Abandon(event.id);
    return true;
  }
  mutex_.Unlock();
  if (event.action == Action::kRetry) {
    Send(std::unique_ptr<Call>(event.call));
  } else {
    SendNextOf(static_cast<int>(event.id));
  }
  mutex_.Lock();
  return true;
}

absl::Duration LoadDriver::NextDue() const {
  // Once sending is over only the last call's end is waited for, and that wakes the clock.
  absl::Duration due = sending_over_ ? absl::InfiniteDuration() : sending_ends_;
  if (!events_.empty()) {
    due = std::min(due, events_.top().at);
  }
  if (!sending_over_ && next_arrival_.has_value()) {
    due = std::min(due,
                   in_flight_ < options_.max_in_flight ? *next_arrival_ : Elapsed() + kFullPause);
  }
  return due;
}

void LoadDriver::SendDueArrival() {
  if (ClaimRequest()) {
    Send(NewCall(-1, *next_arrival_, &arrival_random_));
    next_arrival_ = options_.arrivals->Next();
  }
  if (!next_arrival_.has_value()) {
    sending_over_ = true;
  }
}

// --- Ends of calls ---

void LoadDriver::Complete(Worker* worker) {
  void* tag = nullptr;
  bool ok = false;
  while (worker->queue.Next(&tag, &ok)) {
    End(worker, std::unique_ptr<Call>(static_cast<Call*>(tag)));
  }
}

void LoadDriver::End(Worker* worker, std::unique_ptr<Call> call) {
  const absl::Duration now = Elapsed();
  bool abandoned = false;
  if (call->wish != Fate::kAnswered) {
    absl::MutexLock lock(&mutex_);
    abandonable_.erase(call->id);
    abandoned = call->abandoned;
  }
  CallRecord record;
  record.request = call->request;
  record.latency = now - call->intended;
  record.service_time = now - call->sent;
  record.lateness = call->first_sent - call->intended;
  record.attempts = call->attempts;
  absl::Duration pause;
  if (call->status.ok()) {
    CheckAnswer(worker, call.get(), &record);
  } else {
    const absl::Status status = ToAbslStatus(call->status);
    if (abandoned) {
      record.fate = call->wish;
    } else {
      if (RetryLater(&call, status)) {
        return;
      }
      const ErrorDetails details = GetErrorDetails(status);
      record.fate = Fate::kRefused;
      record.code = status.code();
      record.reason = details.reason;
      pause = details.retry_after.value_or(kRefusedPause);
    }
  }
  Count(worker, *call, record);
  if (call->client >= 0) {
    if (pause > absl::ZeroDuration()) {
      Schedule({now + pause, Action::kNextOfClient, static_cast<uint64_t>(call->client), nullptr});
    } else {
      SendNextOf(call->client);
    }
  }
  Leave();
}

// One call fewer in flight.
void LoadDriver::Leave() {
  if (in_flight_.fetch_sub(1) == 1 && sending_over_) {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  }
}

// Whether the call goes out again, once its delay is over.
bool LoadDriver::RetryLater(std::unique_ptr<Call>* call, const absl::Status& status) {
  const absl::optional<absl::Duration> retry_after = GetErrorDetails(status).retry_after;
  const bool retryable = absl::IsUnavailable(status) || retry_after.has_value();
  if (!retryable || (*call)->attempts >= options_.client.max_attempts ||
      (*call)->wish != Fate::kAnswered) {
    return false;
  }
  const absl::Duration backoff =
      std::min(options_.client.initial_backoff * (1 << ((*call)->attempts - 1)),
               options_.client.max_backoff);
  const absl::Duration at = Elapsed() + retry_after.value_or(backoff);
  if (at - (*call)->first_sent >= options_.client.deadline) {
    return false;
  }
  Schedule({at, Action::kRetry, (*call)->id, call->release()});
  return true;
}

// Fills in what came back: an answer that fits, or a wrong one.
void LoadDriver::CheckAnswer(Worker* worker, Call* call, CallRecord* record) {
  v1::ScoreResponse& answer = worker->answer;
  const grpc::Status parsed =
      grpc::SerializationTraits<v1::ScoreResponse>::Deserialize(&call->answer, &answer);
  std::string problem;
  if (!parsed.ok()) {
    problem = "not a ScoreResponse";
  } else if (answer.request_id() != call->request_id) {
    problem =
        absl::StrCat("request_id: expected ", call->request_id, ", got ", answer.request_id());
  } else {
    if (options_.verify) {
      const absl::optional<Difference> difference =
          FindDifference(call->request->expected, answer, options_.tolerance);
      problem = difference.has_value() ? ToString(*difference) : "";
    }
    if (problem.empty()) {
      answer.clear_request_id();  // The pool's request has none.
      problem = std::string(CheckScoreResponse(call->request->request, answer).message());
    }
  }
  record->stats = &answer.stats();
  if (!problem.empty()) {
    record->fate = Fate::kWrong;
    ReportWrong(*call, problem);
  }
}

void LoadDriver::ReportWrong(const Call& call, absl::string_view problem) {
  absl::MutexLock lock(&mutex_);
  sending_over_ = true;
  if (wrong_answers_.size() < kMaxWrongAnswers) {
    wrong_answers_.push_back(absl::StrCat("request ", call.request_id, " (", call.request->shape,
                                          ", pool ", call.request_index, ", target ",
                                          options_.targets[call.target].address, "): ", problem));
  }
  changed_.SignalAll();
}

void LoadDriver::Count(Worker* worker, const Call& call, const CallRecord& record) {
  absl::MutexLock lock(&worker->mutex);
  worker->ledger.Record(record, options_.latency_goal);
  Interval& interval = worker->interval;
  if (record.fate == Fate::kAnswered) {
    ++interval.answered;
    interval.candidates += record.request->candidates;
    interval.latency.Record(record.latency);
  } else if (record.fate == Fate::kRefused || record.fate == Fate::kWrong) {
    ++interval.refused;
  } else {
    ++interval.given_up;
  }
  if (call.intended >= options_.warmup) {
    worker->targets[call.target].Record(record, options_.latency_goal);
    worker->last_end = std::max(worker->last_end, call.intended + record.latency);
  }
}

// --- Results ---

Interval LoadDriver::TakeInterval() {
  Interval taken;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    absl::MutexLock lock(&worker->mutex);
    taken.Merge(worker->interval);
    worker->interval = Interval();
  }
  taken.begin = interval_begin_;
  taken.end = Elapsed();
  interval_begin_ = taken.end;
  taken.in_flight = in_flight_;
  return taken;
}

LoadResult LoadDriver::Finish() {
  LoadResult result;
  result.warmup = options_.warmup;
  result.started = started_;
  result.started_candidates = started_candidates_;
  for (const Target& target : options_.targets) {
    result.targets.push_back({target, Tally()});
  }
  absl::Duration last_end = options_.warmup;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    absl::MutexLock lock(&worker->mutex);
    for (size_t target = 0; target < result.targets.size(); ++target) {
      result.targets[target].tally.Merge(worker->targets[target]);
      result.total.Merge(worker->targets[target]);
    }
    result.ledger.Merge(worker->ledger);
    last_end = std::max(last_end, worker->last_end);
  }
  result.elapsed = last_end - options_.warmup;
  absl::MutexLock lock(&mutex_);
  result.wrong_answers = wrong_answers_;
  return result;
}

}  // namespace canopy::client
