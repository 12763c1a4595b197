#include "client/client_options.h"

#include <cstddef>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/proxy.h"

namespace canopy::client {
namespace {

absl::Status Wrong(absl::string_view target, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("target '", target, "' ", problem));
}

// Checks that `address`, the HOST:PORT in `target`, has a port. gRPC would replace a missing port
// by 443, where no server listens.
absl::Status CheckAddress(absl::string_view target, absl::string_view address) {
  const size_t colon = address.rfind(':');
  // Earlier colons belong to an IPv6 address in brackets.
  if (colon == absl::string_view::npos ||
      (address.find(':') != colon && address[colon - 1] != ']')) {
    return Wrong(target, "has no port from 1 to 65535: give HOST:PORT");
  }
  const absl::string_view port_text = address.substr(colon + 1);
  uint32_t port = 0;
  if (!absl::SimpleAtoi(port_text, &port) || port < 1 || port > 65'535) {
    return Wrong(target, absl::StrCat("has the port '", port_text,
                                      "', which is not a number from 1 to 65535"));
  }
  return colon == 0 ? Wrong(target, "has no host: give HOST:PORT") : absl::OkStatus();
}

// Refuses URLs, which gRPC would look up as names. Schemes that gRPC knows are passed to it.
absl::Status CheckScheme(absl::string_view target) {
  constexpr absl::string_view kKnown[] = {"dns",  "unix",  "unix-abstract", "ipv4",
                                          "ipv6", "vsock", "xds",           "google-c2p"};
  const size_t end = target.find("://");
  if (end == absl::string_view::npos || absl::c_linear_search(kKnown, target.substr(0, end))) {
    return absl::OkStatus();
  }
  const absl::string_view rest = target.substr(end + 3);
  return Wrong(target, absl::StrCat("is a URL: give ", rest.substr(0, rest.find('/')), ", without ",
                                    target.substr(0, end + 3)));
}

absl::Status CheckTarget(absl::string_view target) {
  if (target.empty()) {
    return absl::InvalidArgumentError("target is empty: give HOST:PORT");
  }
  if (absl::c_any_of(target, [](char c) { return absl::ascii_isspace(c); })) {
    return Wrong(target, "has a space in it: give HOST:PORT");
  }
  if (absl::Status status = CheckScheme(target); !status.ok()) {
    return status;
  }
  absl::string_view address = target;
  if (absl::ConsumePrefix(&address, "dns:")) {
    // dns:[//authority/]name:port
    if (absl::ConsumePrefix(&address, "//")) {
      const size_t slash = address.find('/');
      address.remove_prefix(slash == absl::string_view::npos ? 0 : slash + 1);
    }
  } else if (absl::ConsumePrefix(&address, "ipv4:") || absl::ConsumePrefix(&address, "ipv6:")) {
    for (const absl::string_view each : absl::StrSplit(address, ',')) {
      if (absl::Status status = CheckAddress(target, each); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  } else if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:") ||
             absl::StrContains(address, "://")) {
    return absl::OkStatus();
  }
  return CheckAddress(target, address);
}

}  // namespace

absl::Status ClientOptions::Validate() const {
  if (absl::Status status = CheckTarget(target); !status.ok()) {
    return status;
  }
  if (absl::Status status = FindProxy(target, proxy).status(); !status.ok()) {
    return status;
  }
  if (deadline <= absl::ZeroDuration() || deadline == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("deadline ", absl::FormatDuration(deadline), " must be positive and finite"));
  }
  if (max_request_bytes < 1 || max_request_bytes > kMaxRequestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_request_bytes ", max_request_bytes, " must be 1 to ", kMaxRequestBytes));
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
