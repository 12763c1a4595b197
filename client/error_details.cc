#include "client/error_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"

namespace canopy::client {
namespace {

constexpr char kPayloadUrl[] = "type.googleapis.com/google.rpc.Status";

static_assert(static_cast<int>(absl::StatusCode::kInvalidArgument) ==
              static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));

absl::StatusCode ToAbslCode(grpc::StatusCode code) {
  const int number = static_cast<int>(code);
  const bool known = number >= 0 && number <= static_cast<int>(grpc::StatusCode::UNAUTHENTICATED);
  return known ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown;
}

void AddDetail(const google::protobuf::Any& any, ErrorDetails* details) {
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry_info;
  google::rpc::ErrorInfo error_info;
  google::rpc::ResourceInfo resource_info;
  if (any.UnpackTo(&bad_request)) {
    for (const auto& violation : bad_request.field_violations()) {
      details->violations.push_back({violation.field(), violation.description()});
    }
  } else if (any.UnpackTo(&retry_info)) {
    const google::protobuf::Duration& delay = retry_info.retry_delay();
    details->retry_after = absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
  } else if (any.UnpackTo(&error_info)) {
    details->reason = error_info.reason();
    details->domain = error_info.domain();
  } else if (any.UnpackTo(&resource_info)) {
    details->resource_type = resource_info.resource_type();
    details->resource_name = resource_info.resource_name();
  }
}

ErrorDetails Decode(const std::string& bytes) {
  ErrorDetails details;
  google::rpc::Status status;
  if (!status.ParseFromString(bytes)) {
    return details;
  }
  details.server_message = status.message();
  for (const google::protobuf::Any& any : status.details()) {
    AddDetail(any, &details);
  }
  return details;
}

}  // namespace

bool Mentions(const std::string& message, const FieldViolation& violation) {
  return absl::StrContains(message, violation.field) &&
         absl::StrContains(message, violation.description);
}

absl::Status ToAbslStatus(const grpc::Status& status) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  std::string message = status.error_message();
  const std::string bytes = status.error_details();
  for (const FieldViolation& violation : Decode(bytes).violations) {
    if (!Mentions(message, violation)) {
      absl::StrAppend(&message, message.empty() ? "" : "; ", violation.field, ": ",
                      violation.description);
    }
  }
  absl::Status converted(ToAbslCode(status.error_code()), message);
  if (!bytes.empty()) {
    converted.SetPayload(kPayloadUrl, absl::Cord(bytes));
  }
  return converted;
}

absl::Status ToAbslStatus(const google::rpc::Status& error) {
  const bool known = error.code() > 0 && error.code() <= grpc::StatusCode::UNAUTHENTICATED;
  return ToAbslStatus(
      grpc::Status(known ? static_cast<grpc::StatusCode>(error.code()) : grpc::StatusCode::UNKNOWN,
                   error.message(), error.SerializeAsString()));
}

ErrorDetails GetErrorDetails(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  return payload.has_value() ? Decode(std::string(*payload)) : ErrorDetails();
}

}  // namespace canopy::client
