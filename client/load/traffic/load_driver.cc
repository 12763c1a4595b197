#include "client/load/traffic/load_driver.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/answer_check.h"
#include "client/error_details.h"
#include "client/load/traffic/answer_compare.h"
#include "client/load/traffic/stream_sender.h"
#include "client/load/traffic/unary_sender.h"

namespace canopy::client {
namespace {

constexpr size_t kMaxWrongAnswers = 20;
// Without a pause, a client of the closed loop would send to a dead server in a busy loop.
constexpr absl::Duration kRefusedPause = absl::Milliseconds(10);
// The interval at which the clock checks again while the most calls are in flight.
constexpr absl::Duration kFullPause = absl::Microseconds(200);
constexpr absl::Duration kOverduePause = absl::Seconds(1);

double DrawShare(std::mt19937_64* random) {
  return static_cast<double>((*random)() >> 11) * 0x1p-53;
}

std::unique_ptr<CallSender> NewSender(const DriverOptions& options, SenderEvents events) {
  SenderOptions sender;
  sender.targets = options.targets;
  sender.client = options.client;
  sender.client.max_attempts = 1;
  sender.client.own_connections = true;
  sender.token = options.token;
  sender.connections = options.connections;
  sender.lanes = options.completion_threads;
  sender.kills = options.kill_share > 0;
  if (options.rpc == LoadRpc::kStream) {
    return std::make_unique<StreamSender>(std::move(sender), std::move(events));
  }
  return std::make_unique<UnarySender>(std::move(sender), std::move(events));
}

}  // namespace

struct LoadDriver::Lane {
  Mutex mutex;
  std::vector<Tally> targets ABSL_GUARDED_BY(mutex);
  Tally all_calls ABSL_GUARDED_BY(mutex);
  Interval interval ABSL_GUARDED_BY(mutex);
  absl::Duration last_end ABSL_GUARDED_BY(mutex);  // the end of the last counted call
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
  }
  for (int i = 0; i < options_.completion_threads; ++i) {
    lanes_.push_back(std::make_unique<Lane>());
    MutexLock lock(&lanes_.back()->mutex);
    lanes_.back()->targets.resize(options_.targets.size());
  }
  for (int client = 0; options_.arrivals == nullptr && client < options_.clients; ++client) {
    // Adjacent seeds of this generator give independent sequences.
    client_random_.emplace_back(options_.seed + static_cast<uint64_t>(client));
  }
  SenderEvents events;
  events.on_end = [this](int lane, std::unique_ptr<LoadCall> call, CallEnd end) {
    End(lanes_[static_cast<size_t>(lane)].get(), std::move(call), std::move(end));
  };
  events.on_unmatched = [this](size_t target, absl::string_view problem) {
    ReportWrong(absl::StrCat("target ", options_.targets[target].address), problem);
  };
  sender_ = NewSender(options_, std::move(events));
}

LoadDriver::~LoadDriver() {
  Stop();
  if (clock_thread_.joinable()) {
    clock_thread_.join();
  }
  sender_->Close();
}

void LoadDriver::Start() {
  start_ = std::chrono::steady_clock::now();
  if (options_.arrivals != nullptr) {
    next_arrival_ = options_.arrivals->Next();
  }
  for (int client = 0; client < static_cast<int>(client_random_.size()); ++client) {
    SendNextOf(client);
  }
  Schedule({kOverduePause, Action::kEndOverdue, 0, nullptr});
  clock_thread_ = std::thread([this] { RunClock(); });
}

void LoadDriver::Stop() {
  MutexLock lock(&mutex_);
  sending_over_ = true;
  changed_.SignalAll();
}

bool LoadDriver::WaitUntilDone(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(Condition(&done_), timeout);
}

absl::Duration LoadDriver::Elapsed() const {
  return absl::FromChrono(std::chrono::steady_clock::now() - start_);
}

// --- Sending ---

// Returns whether one more request may be sent, and counts it as started.
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

std::unique_ptr<LoadCall> LoadDriver::NewCall(int client, absl::Duration intended,
                                              std::mt19937_64* random) {
  auto call = std::make_unique<LoadCall>();
  call->id = next_id_.fetch_add(1);
  call->client = client;
  call->intended = intended;
  call->request_id = LoadRequestId(call->id);
  const double point = DrawShare(random) * cumulative_shares_.back();
  call->target = static_cast<size_t>(
      std::upper_bound(cumulative_shares_.begin(), cumulative_shares_.end() - 1, point) -
      cumulative_shares_.begin());
  const auto connections = static_cast<uint64_t>(options_.connections);
  call->connection = (client < 0 ? call->id : static_cast<uint64_t>(client)) % connections;
  const double share = DrawShare(random);
  call->planned_outcome = share < options_.cancel_share ? CallOutcome::kCancelled
                          : share < options_.cancel_share + options_.kill_share
                              ? CallOutcome::kKilled
                              : CallOutcome::kAnswered;
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

void LoadDriver::Send(std::unique_ptr<LoadCall> call) {
  call->sent = Elapsed();
  if (++call->attempts == 1) {
    call->first_sent = call->sent;
  }
  call->time_left = options_.client.deadline - (call->sent - call->first_sent);
  const Event abandoning = {call->sent + call->abandon_after, Action::kAbandon, call->id, nullptr};
  const bool abandons = call->planned_outcome != CallOutcome::kAnswered;
  sender_->Send(std::move(call));
  // The call may have ended already; then Abandon has no effect.
  if (abandons) {
    Schedule(abandoning);
  }
}

void LoadDriver::Schedule(Event event) {
  MutexLock lock(&mutex_);
  events_.push(event);
  changed_.SignalAll();
}

// --- The clock ---

void LoadDriver::RunClock() {
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

// Runs the first event that is due. Returns false if there is none.
bool LoadDriver::RunDue(absl::Duration now) {
  if (events_.empty() || events_.top().at > now) {
    return false;
  }
  const Event event = events_.top();
  events_.pop();
  mutex_.Unlock();
  Run(event);
  mutex_.Lock();
  return true;
}

void LoadDriver::Run(const Event& event) {
  switch (event.action) {
    case Action::kRetry:
      Send(std::unique_ptr<LoadCall>(event.call));
      break;
    case Action::kNextOfClient:
      SendNextOf(static_cast<int>(event.id));
      break;
    case Action::kAbandon:
      sender_->Abandon(event.id);
      break;
    case Action::kEndOverdue:
      sender_->EndOverdue(Elapsed());
      Schedule({Elapsed() + kOverduePause, Action::kEndOverdue, 0, nullptr});
      break;
  }
}

absl::Duration LoadDriver::NextDue() const {
  // After sending has ended, only the end of the last call is awaited, which wakes the clock.
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

void LoadDriver::End(Lane* lane, std::unique_ptr<LoadCall> call, CallEnd end) {
  const absl::Duration now = Elapsed();
  CallRecord record;
  record.request = call->request;
  record.latency = now - call->intended;
  record.service_time = now - call->sent;
  record.lateness = call->first_sent - call->intended;
  record.attempts = call->attempts;
  absl::Duration pause;
  if (end.answer != nullptr) {
    CheckAnswer(*call, &end);
    record.stats = &end.answer->stats();
  }
  if (!end.problem.empty()) {
    record.outcome = CallOutcome::kWrong;
    ReportWrong(
        absl::StrCat("request ", call->request_id, " (", call->request->shape, ", pool ",
                     call->request_index, ", target ", options_.targets[call->target].address, ")"),
        end.problem);
  } else if (end.answer == nullptr && end.given_up.has_value()) {
    record.outcome = *end.given_up;
  } else if (end.answer == nullptr) {
    if (RetryLater(&call, end.status)) {
      return;
    }
    const ErrorDetails details = GetErrorDetails(end.status);
    record.outcome = CallOutcome::kRefused;
    record.code = end.status.code();
    record.reason = details.reason;
    pause = details.retry_after.value_or(kRefusedPause);
  }
  Count(lane, *call, record);
  if (call->client >= 0) {
    if (pause > absl::ZeroDuration()) {
      Schedule({now + pause, Action::kNextOfClient, static_cast<uint64_t>(call->client), nullptr});
    } else {
      SendNextOf(call->client);
    }
  }
  Leave();
}

// Counts one call less in flight.
void LoadDriver::Leave() {
  if (in_flight_.fetch_sub(1) == 1 && sending_over_) {
    MutexLock lock(&mutex_);
    changed_.SignalAll();
  }
}

// Returns whether the call is sent again, after its delay.
bool LoadDriver::RetryLater(std::unique_ptr<LoadCall>* call, const absl::Status& status) {
  const absl::optional<absl::Duration> retry_after = GetErrorDetails(status).retry_after;
  const bool retryable = absl::IsUnavailable(status) || retry_after.has_value();
  if (!retryable || (*call)->attempts >= options_.client.max_attempts ||
      (*call)->planned_outcome != CallOutcome::kAnswered) {
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

// Sets `end->problem` if the answer is wrong.
void LoadDriver::CheckAnswer(const LoadCall& call, CallEnd* end) const {
  v1::ScoreResponse& answer = *end->answer;
  if (answer.request_id() != call.request_id) {
    end->problem =
        absl::StrCat("request_id: expected ", call.request_id, ", got ", answer.request_id());
    return;
  }
  if (options_.verify) {
    const absl::optional<Difference> difference =
        FindDifference(call.request->expected, answer, options_.tolerance);
    end->problem = difference.has_value() ? ToString(*difference) : "";
  }
  if (end->problem.empty()) {
    answer.clear_request_id();  // the pool's request has none
    end->problem = std::string(CheckScoreResponse(call.request->request, answer).message());
  }
}

void LoadDriver::ReportWrong(const std::string& where, absl::string_view problem) {
  MutexLock lock(&mutex_);
  sending_over_ = true;
  if (wrong_answers_.size() < kMaxWrongAnswers) {
    wrong_answers_.push_back(absl::StrCat(where, ": ", problem));
  }
  changed_.SignalAll();
}

void LoadDriver::Count(Lane* lane, const LoadCall& call, const CallRecord& record) {
  MutexLock lock(&lane->mutex);
  lane->all_calls.Record(record, options_.latency_goal);
  Interval& interval = lane->interval;
  if (record.outcome == CallOutcome::kAnswered) {
    ++interval.answered;
    interval.candidates += record.request->candidates;
    interval.latency.Record(record.latency);
  } else if (record.outcome == CallOutcome::kRefused || record.outcome == CallOutcome::kWrong) {
    ++interval.refused;
  } else {
    ++interval.given_up;
  }
  if (call.intended >= options_.warmup) {
    lane->targets[call.target].Record(record, options_.latency_goal);
    lane->last_end = std::max(lane->last_end, call.intended + record.latency);
  }
}

// --- Results ---

Interval LoadDriver::TakeInterval() {
  Interval taken;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    MutexLock lock(&lane->mutex);
    taken.Merge(lane->interval);
    lane->interval = Interval();
  }
  taken.begin = interval_begin_;
  taken.end = Elapsed();
  interval_begin_ = taken.end;
  taken.in_flight = in_flight_;
  return taken;
}

LoadResult LoadDriver::Finish() {
  sender_->Close();  // messages after the last answer are wrong, too
  LoadResult result;
  result.warmup = options_.warmup;
  result.started = started_;
  result.started_candidates = started_candidates_;
  for (const Target& target : options_.targets) {
    result.targets.push_back({target, Tally()});
  }
  absl::Duration last_end = options_.warmup;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    MutexLock lock(&lane->mutex);
    for (size_t target = 0; target < result.targets.size(); ++target) {
      result.targets[target].tally.Merge(lane->targets[target]);
      result.total.Merge(lane->targets[target]);
    }
    result.all_calls.Merge(lane->all_calls);
    last_end = std::max(last_end, lane->last_end);
  }
  result.elapsed = last_end - options_.warmup;
  MutexLock lock(&mutex_);
  result.wrong_answers = wrong_answers_;
  return result;
}

}  // namespace canopy::client
