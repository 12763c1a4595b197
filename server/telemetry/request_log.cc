#include "server/telemetry/request_log.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "canopy/v1/scorer.pb.h"
#include "server/telemetry/trace_context.h"
#include "server/wire/wire_reader.h"

namespace canopy::server {
namespace {

// The number of fields that FindRequestId reads.
constexpr int kMaxFields = 8;

void AddScored(const ScoreObservation& scored, std::vector<LogField>* fields) {
  if (scored.model != nullptr) {
    fields->emplace_back("model", scored.model->name);
    fields->emplace_back("model_version", scored.model->version);
  }
  fields->emplace_back("priority", scored.priority == Priority::kLow ? "low" : "normal");
  fields->emplace_back("backend", BackendName(scored.route.backend));
  fields->emplace_back("route_reason", ReasonName(scored.route.reason));
  const std::pair<const char*, int64_t> counts[] = {{"questions", scored.questions},
                                                    {"paths", scored.paths},
                                                    {"unscored_paths", scored.unscored_paths},
                                                    {"input_tokens", scored.counts.input_tokens},
                                                    {"unique_tokens", scored.counts.unique_tokens},
                                                    {"computed_tokens", scored.computed_tokens},
                                                    {"parts", scored.parts},
                                                    {"batch_requests", scored.batch_requests}};
  for (const auto& [key, count] : counts) {
    fields->emplace_back(key, count);
  }
  const std::pair<const char*, double> times[] = {{"decode_ms", scored.decode_ms},
                                                  {"queue_ms", scored.stages.queue_ms},
                                                  {"plan_ms", scored.stages.plan_ms},
                                                  {"device_ms", scored.stages.device_ms},
                                                  {"encode_queue_ms", scored.encode_queue_ms},
                                                  {"encode_ms", scored.encode_ms}};
  for (const auto& [key, milliseconds] : times) {
    fields->emplace_back(key, milliseconds);
  }
}

void AddError(const WireError& error, std::vector<LogField>* fields) {
  if (!error.reason.empty()) {
    fields->emplace_back("reason", error.reason);
  } else if (!error.log_reason.empty()) {
    fields->emplace_back("reason", BoundedForLog(error.log_reason));
  }
  if (!error.log_field.empty()) {
    fields->emplace_back("field", BoundedForLog(error.log_field));
  }
  if (!error.internal_id.empty()) {
    fields->emplace_back("error_id", error.internal_id);
  }
}

void AddTrace(absl::string_view traceparent, std::vector<LogField>* fields) {
  if (const std::optional<TraceParent> trace = ParseTraceparent(traceparent); trace.has_value()) {
    fields->emplace_back("trace_id", trace->trace_id);
    fields->emplace_back("parent_id", trace->parent_id);
  }
}

// Returns whether the error is a bug, or of a kind that an operator should see.
bool IsServersFault(grpc::StatusCode code) {
  return code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN ||
         code == grpc::StatusCode::DATA_LOSS;
}

}  // namespace

std::vector<LogField> RequestFields(const RequestRecord& record, const WireError& error,
                                    absl::string_view id) {
  std::vector<LogField> fields = {{"method", MethodName(record.method)},
                                  {"code", CodeName(error.status.error_code())},
                                  {"request_id", BoundedForLog(id)}};
  AddError(error, &fields);
  AddTrace(record.traceparent, &fields);
  fields.emplace_back("peer", BoundedForLog(record.peer));
  if (record.scored != nullptr) {
    AddScored(*record.scored, &fields);
  }
  fields.emplace_back("total_ms", record.total_ms);
  return fields;
}

absl::string_view FindRequestId(absl::string_view message) {
  WireReader reader(message);
  WireField field;
  for (int i = 0; i < kMaxFields && reader.Next(&field); ++i) {
    if (field.IsBytes(v1::ScoreRequest::kRequestIdFieldNumber)) {
      return field.bytes;
    }
  }
  return {};
}

std::string RequestLog::Write(const RequestRecord& record, const WireError& error) const {
  std::string made = record.request_id.empty() ? NewId() : "";
  const std::vector<LogField> fields =
      RequestFields(record, error, made.empty() ? record.request_id : absl::string_view(made));
  bool written = false;
  if (error.status.ok()) {
    written = LogInfo("request", fields);
  } else if (IsServersFault(error.status.error_code())) {
    written = LogError("request_failed", fields);
  } else {
    written = LogWarning("request_refused", fields);
  }
  return written ? made : "";
}

void RequestLog::WriteStreamEnd(const StreamRecord& record, const WireError& error) const {
  if (!Wants(error)) {
    return;
  }
  std::vector<LogField> fields = {{"code", CodeName(error.status.error_code())}};
  AddError(error, &fields);
  AddTrace(record.traceparent, &fields);
  fields.emplace_back("peer", BoundedForLog(record.peer));
  fields.emplace_back("requests", record.requests);
  fields.emplace_back("total_ms", record.total_ms);
  if (error.status.ok()) {
    (void)LogInfo("stream_ended", fields);
  } else {
    (void)LogWarning("stream_ended", fields);
  }
}

}  // namespace canopy::server
