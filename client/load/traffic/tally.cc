#include "client/load/traffic/tally.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/enum_names.h"

namespace canopy::client {
namespace {

// The reason of a request that waited and then gave its place to another request.
constexpr absl::string_view kDisplaced = "DISPLACED";

std::string OutcomeOf(const CallRecord& record) {
  switch (record.outcome) {
    case CallOutcome::kAnswered:
      return "OK";
    case CallOutcome::kRefused:
      return absl::StrCat(absl::StatusCodeToString(record.code), record.reason.empty() ? "" : " ",
                          record.reason);
    case CallOutcome::kCancelled:
    case CallOutcome::kKilled:
    case CallOutcome::kWrong:
      break;
  }
  return absl::StrCat(CallOutcomeName(record.outcome),
                      record.outcome == CallOutcome::kWrong ? "" : " here");
}

template <typename Values>
void AddEach(const Values& values, Values* sums) {
  for (size_t i = 0; i < values.size(); ++i) {
    (*sums)[i] += values[i];
  }
}

void AddCounts(const std::map<std::string, uint64_t>& counts,
               std::map<std::string, uint64_t>* sums) {
  for (const auto& [name, count] : counts) {
    (*sums)[name] += count;
  }
}

}  // namespace

absl::string_view CallOutcomeName(CallOutcome outcome) {
  switch (outcome) {
    case CallOutcome::kAnswered:
      return "answered";
    case CallOutcome::kRefused:
      return "refused";
    case CallOutcome::kCancelled:
      return "cancelled";
    case CallOutcome::kKilled:
      return "killed";
    case CallOutcome::kWrong:
      return "wrong";
  }
  return "";
}

absl::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kDecode:
      return "decode";
    case Stage::kQueue:
      return "queue";
    case Stage::kPlan:
      return "plan";
    case Stage::kDevice:
      return "device";
    case Stage::kEncodeQueue:
      return "encode_queue";
    case Stage::kEncode:
      return "encode";
    case Stage::kServer:
      return "server";
    case Stage::kOutside:
      return "outside";
  }
  return "";
}

void Tally::Record(const CallRecord& record, absl::Duration latency_goal) {
  const auto outcome = static_cast<size_t>(record.outcome);
  ++calls[outcome];
  candidates[outcome] += record.request->candidates;
  retries += static_cast<uint64_t>(record.attempts - 1);
  lateness.Record(record.lateness);
  ++outcomes[OutcomeOf(record)];
  if (record.outcome == CallOutcome::kRefused &&
      record.code == absl::StatusCode::kResourceExhausted && record.reason != kDisplaced) {
    refusal.Record(record.service_time);
  }
  if (record.outcome != CallOutcome::kAnswered) {
    return;
  }
  within_goal += record.latency <= latency_goal ? 1 : 0;
  questions += record.request->questions;
  input_tokens += record.request->input_tokens;
  unique_tokens += record.request->unique_tokens;
  latency.Record(record.latency);
  service_time.Record(record.service_time);
  const v1::Stats& stats = *record.stats;
  computed_tokens += stats.computed_tokens();
  ++routes[absl::StrCat(EnumName(stats.backend()), stats.reason().empty() ? "" : " ",
                        stats.reason())];
  const absl::Duration server = absl::Milliseconds(stats.total_ms());
  const absl::Duration durations[kNumStages] = {absl::Milliseconds(stats.decode_ms()),
                                                absl::Milliseconds(stats.queue_ms()),
                                                absl::Milliseconds(stats.plan_ms()),
                                                absl::Milliseconds(stats.device_ms()),
                                                absl::Milliseconds(stats.encode_queue_ms()),
                                                absl::Milliseconds(stats.encode_ms()),
                                                server,
                                                record.service_time - server};
  for (int stage = 0; stage < kNumStages; ++stage) {
    stages[stage].Record(durations[stage]);
  }
}

void Tally::Merge(const Tally& other) {
  AddEach(other.calls, &calls);
  AddEach(other.candidates, &candidates);
  retries += other.retries;
  within_goal += other.within_goal;
  questions += other.questions;
  input_tokens += other.input_tokens;
  unique_tokens += other.unique_tokens;
  computed_tokens += other.computed_tokens;
  latency.Merge(other.latency);
  service_time.Merge(other.service_time);
  lateness.Merge(other.lateness);
  refusal.Merge(other.refusal);
  for (int stage = 0; stage < kNumStages; ++stage) {
    stages[stage].Merge(other.stages[stage]);
  }
  AddCounts(other.outcomes, &outcomes);
  AddCounts(other.routes, &routes);
}

uint64_t Tally::total() const { return std::accumulate(calls.begin(), calls.end(), uint64_t{0}); }

double Tally::error_share() const {
  const uint64_t wanted =
      num(CallOutcome::kAnswered) + num(CallOutcome::kRefused) + num(CallOutcome::kWrong);
  const uint64_t errors = num(CallOutcome::kRefused) + num(CallOutcome::kWrong);
  return wanted == 0 ? 0 : static_cast<double>(errors) / static_cast<double>(wanted);
}

}  // namespace canopy::client
