#include "server/wire/violations.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "server/wire/grpc_status.h"

namespace canopy::server {

absl::Status Violations::ToStatus(absl::StatusCode code) const {
  if (empty()) {
    return absl::OkStatus();
  }
  google::rpc::BadRequest bad_request;
  std::string text;
  for (const Violation& violation : list_) {
    auto* entry = bad_request.add_field_violations();
    entry->set_field(violation.field);
    entry->set_description(violation.description);
    absl::StrAppend(&text, text.empty() ? "" : "; ", violation.field, ": ", violation.description);
  }
  const Violation& first = list_.front();
  return WithLogDetail(WithDetail(absl::Status(code, text), bad_request), first.field,
                       first.log_description.empty() ? first.description : first.log_description);
}

}  // namespace canopy::server
