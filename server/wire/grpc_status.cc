#include "server/wire/grpc_status.h"

#include <atomic>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "base/mutex.h"
#include "base/status_details.h"
#include "base/utf8.h"
#include "google/protobuf/duration.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace canopy::server {
namespace {

constexpr absl::string_view kTypeUrlPrefix = "type.googleapis.com/";
constexpr size_t kMaxQuotedBytes = 128;

// The keys of payloads that are not sent to clients.
constexpr char kLogFieldKey[] = "canopy/log_field";
constexpr char kLogReasonKey[] = "canopy/log_reason";

// The two enums number their codes alike.
static_assert(static_cast<int>(absl::StatusCode::kCancelled) == grpc::StatusCode::CANCELLED);
static_assert(static_cast<int>(absl::StatusCode::kInvalidArgument) ==
              grpc::StatusCode::INVALID_ARGUMENT);
static_assert(static_cast<int>(absl::StatusCode::kResourceExhausted) ==
              grpc::StatusCode::RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(absl::StatusCode::kUnavailable) == grpc::StatusCode::UNAVAILABLE);
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              grpc::StatusCode::UNAUTHENTICATED);

// Returns whether the contract gives the code a meaning. Any other code is caused by a bug.
bool IsContractCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

// Logs `status` and returns the id of its line. If the log's limit leaves the line out, returns the
// id of the last line that was written, so that every id that a client receives is in the log.
std::string LogInternalError(const absl::Status& status) {
  static Mutex mutex(absl::kConstInit);
  static auto* const last_id = new std::string();
  static const auto is_known = +[](std::string* last) { return !last->empty(); };
  const std::string id = NewId();
  const bool written = LogError("internal_error", {{"id", id}, {"error", status.ToString()}});
  MutexLock lock(&mutex);
  if (written) {
    *last_id = id;
  } else {
    // A line is left out only after others were admitted, and the first of those may not be written
    // yet.
    mutex.Await(Condition(is_known, last_id));
  }
  return *last_id;
}

std::string PayloadText(const absl::Status& status, absl::string_view key) {
  const auto payload = status.GetPayload(key);
  return payload.has_value() ? std::string(*payload) : std::string();
}

WireError InternalError(const absl::Status& status) {
  WireError error;
  error.internal_id = LogInternalError(status);
  error.status =
      grpc::Status(grpc::StatusCode::INTERNAL, absl::StrCat("internal error ", error.internal_id));
  return error;
}

// Returns one line of at most kMaxStatusMessageBytes. Libraries add stack traces after the first
// line.
std::string WireMessage(absl::string_view message) {
  message = message.substr(0, message.find('\n'));
  if (message.size() <= kMaxStatusMessageBytes) {
    return std::string(message);
  }
  constexpr absl::string_view kCut = "...";
  return absl::StrCat(Utf8Prefix(message, kMaxStatusMessageBytes - kCut.size()), kCut);
}

void AddDetail(const google::protobuf::Message& detail, google::rpc::Status* details) {
  details->add_details()->PackFrom(detail);
}

}  // namespace

std::string NewId() {
  static const uint64_t process_bits = (uint64_t{std::random_device()()} << 32);
  static std::atomic<uint32_t> counter{0};
  return absl::StrFormat("%016x", process_bits | counter.fetch_add(1, std::memory_order_relaxed));
}

absl::Status WithDetail(absl::Status status, const google::protobuf::MessageLite& detail) {
  status.SetPayload(absl::StrCat(kTypeUrlPrefix, detail.GetTypeName()),
                    absl::Cord(detail.SerializeAsString()));
  return status;
}

absl::Status WithLogDetail(absl::Status status, absl::string_view field, absl::string_view reason) {
  status.SetPayload(kLogFieldKey, absl::Cord(field));
  status.SetPayload(kLogReasonKey, absl::Cord(reason));
  return status;
}

absl::Status UnknownModelError(absl::string_view name, absl::Span<const std::string> loaded) {
  const std::string quoted = QuotedForError(name);
  google::rpc::ResourceInfo resource;
  resource.set_resource_type("canopy.v1.Model");
  resource.set_resource_name(quoted);
  resource.set_description("no model of this name is loaded");
  absl::Status error = WithDetail(
      absl::NotFoundError(absl::StrCat("model: \"", quoted,
                                       "\" is not loaded; loaded: ", absl::StrJoin(loaded, ", "))),
      resource);
  return WithLogDetail(std::move(error), "model", absl::StrCat("not loaded: ", quoted));
}

std::string QuotedForError(absl::string_view text) {
  std::string quoted = absl::CHexEscape(text.substr(0, kMaxQuotedBytes));
  if (text.size() > kMaxQuotedBytes) {
    quoted += "...";
  }
  return quoted;
}

WireError ToWireError(const absl::Status& status) {
  if (status.ok()) {
    return {};
  }
  if (!IsContractCode(status.code())) {
    return InternalError(status);
  }
  const std::string message = WireMessage(status.message());
  WireError error;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  status.ForEachPayload([&details](absl::string_view type_url, const absl::Cord& payload) {
    if (absl::StartsWith(type_url, kTypeUrlPrefix)) {
      auto* detail = details.add_details();
      detail->set_type_url(std::string(type_url));
      detail->set_value(std::string(payload));
    }
  });
  if (const auto delay = RetryAfter(status); delay.has_value()) {
    google::rpc::RetryInfo retry;
    const int64_t delay_ms = absl::ToInt64Milliseconds(*delay);
    retry.mutable_retry_delay()->set_seconds(delay_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(delay_ms % 1000 * 1'000'000));
    AddDetail(retry, &details);
    error.retry_pushback_ms = absl::StrCat(delay_ms);
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    error.retry_pushback_ms = "-1";
  }
  error.log_field = PayloadText(status, kLogFieldKey);
  error.log_reason = PayloadText(status, kLogReasonKey);
  error.reason = ErrorReasonName(status);
  if (!error.reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(error.reason);
    info.set_domain(kErrorDomain);
    AddDetail(info, &details);
  }
  error.status =
      grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                   details.details_size() == 0 ? std::string() : details.SerializeAsString());
  return error;
}

}  // namespace canopy::server
