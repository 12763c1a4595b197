#include "client/client_options.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace canopy::client {
namespace {

// gRPC would take a missing port for 443, and then find nobody. Only names and addresses have
// ports: other schemes (unix:, xds:) are left to gRPC.
absl::Status CheckPort(absl::string_view target) {
  absl::string_view address = target;
  if (absl::ConsumePrefix(&address, "dns:")) {
    // dns:[//authority/]name:port
    if (absl::ConsumePrefix(&address, "//")) {
      const size_t slash = address.find('/');
      address.remove_prefix(slash == absl::string_view::npos ? 0 : slash + 1);
    }
  } else if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:") ||
             absl::StartsWith(address, "ipv4:") || absl::StartsWith(address, "ipv6:") ||
             absl::StrContains(address, "://")) {
    return absl::OkStatus();
  }
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  // Colons further left belong to an IPv6 address, which stands in brackets.
  const bool has_port = colon != absl::string_view::npos &&
                        (address.find(':') == colon || address[colon - 1] == ']') &&
                        absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 &&
                        port <= 65'535;
  return has_port ? absl::OkStatus()
                  : absl::InvalidArgumentError(absl::StrCat(
                        "target '", target, "' has no port from 1 to 65535: give HOST:PORT"));
}

}  // namespace

absl::Status ClientOptions::Validate() const {
  if (target.empty()) {
    return absl::InvalidArgumentError("target is empty");
  }
  if (absl::Status status = CheckPort(target); !status.ok()) {
    return status;
  }
  if (deadline <= absl::ZeroDuration() || deadline == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("deadline ", absl::FormatDuration(deadline), " must be positive and finite"));
  }
  if (max_request_bytes < 1 || max_request_bytes > kMostRequestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_request_bytes ", max_request_bytes, " must be 1 to ", kMostRequestBytes));
  }
  if (max_attempts < 1 || max_attempts > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_attempts ", max_attempts, " must be 1 to 5"));
  }
  if (initial_backoff <= absl::ZeroDuration() || max_backoff < initial_backoff ||
      max_backoff == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial_backoff ", absl::FormatDuration(initial_backoff),
                     " must be positive and at most max_backoff ",
                     absl::FormatDuration(max_backoff), ", which must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace canopy::client
