#include "client/connection_hint.h"

#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace canopy::client {
namespace {

// Returns whether `text` contains one of `parts`.
bool HasAny(absl::string_view text, std::initializer_list<absl::string_view> parts) {
  for (const absl::string_view part : parts) {
    if (absl::StrContains(text, part)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string ConnectionHint(const absl::Status& status, absl::string_view target) {
  const std::string text = absl::AsciiStrToLower(status.message());
  if (absl::IsUnimplemented(status) && text.empty()) {
    return absl::StrCat("what listens at ", target,
                        " does not have this call: a Canopy server scores at its --listen, loads "
                        "weights at its --admin_listen, and its --health_listen does neither");
  }
  if (!absl::IsUnavailable(status)) {
    return "";
  }
  if (HasAny(text, {"http1", "http/1", "failed parsing http/2"})) {
    return absl::StrCat("what listens at ", target,
                        " speaks HTTP/1, as a server's --metrics_listen does: give the address of "
                        "its --listen");
  }
  if (HasAny(text, {"wrong version number", "wrong_version_number"})) {
    return absl::StrCat("what listens at ", target,
                        " speaks plaintext: leave out TLS, or give a port that speaks it");
  }
  if (HasAny(text, {"socket closed", "connection reset"})) {
    return absl::StrCat("something listens at ", target,
                        " and closed the connection, as a port that wants TLS does");
  }
  return "";
}

}  // namespace canopy::client
