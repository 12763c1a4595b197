#include "client/proxy.h"

#include <arpa/inet.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace canopy::client {
namespace {

constexpr const char* kProxyVariables[] = {"grpc_proxy", "https_proxy", "http_proxy"};
constexpr const char* kDirectVariables[] = {"no_grpc_proxy", "no_proxy", "NO_PROXY"};
constexpr char kDefaultProxyPort[] = "80";  // gRPC's default
constexpr int kMaxPort = 65'535;

// A host and its port as text. The host is in lower case, without brackets and without a final dot.
struct HostPort {
  std::string host;
  std::string port;  // empty = no port was given
};

HostPort SplitHostPort(absl::string_view text) {
  HostPort split;
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t bracket = text.find(']');
    split.host = std::string(text.substr(0, bracket));
    text.remove_prefix(bracket == absl::string_view::npos ? text.size() : bracket + 1);
    absl::ConsumePrefix(&text, ":");
    split.port = std::string(text);
  } else if (const size_t colon = text.rfind(':');
             colon != absl::string_view::npos && text.find(':') == colon) {
    split.host = std::string(text.substr(0, colon));
    split.port = std::string(text.substr(colon + 1));
  } else {
    split.host = std::string(text);  // A name, or an IPv6 address without a port.
  }
  absl::AsciiStrToLower(&split.host);
  split.host = std::string(absl::StripSuffix(split.host, "."));
  return split;
}

// An IP address in the form of IPv6: IPv4 addresses are mapped to ::ffff:0:0/96.
using Address = std::array<uint8_t, 16>;
constexpr int kMappedBits = 96;

absl::optional<Address> ParseAddress(const std::string& text) {
  Address address{};
  if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) {
    return address;
  }
  address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (inet_pton(AF_INET, text.c_str(), address.data() + kMappedBits / 8) == 1) {
    return address;
  }
  return absl::nullopt;
}

bool IsWithin(const Address& address, const Address& range, int bits) {
  for (int bit = 0; bit < bits; ++bit) {
    if (((address[bit / 8] ^ range[bit / 8]) >> (7 - bit % 8) & 1) != 0) {
      return false;
    }
  }
  return true;
}

// Returns whether the address is in the range `ADDRESS/BITS`; false for other text.
bool IsInRange(const Address& address, absl::string_view entry) {
  const std::vector<std::string> parts = absl::StrSplit(entry, '/');
  int bits = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &bits) || bits < 0) {
    return false;
  }
  const absl::optional<Address> range = ParseAddress(parts[0]);
  if (!absl::StrContains(parts[0], ':')) {
    bits += kMappedBits;
  }
  return range.has_value() && bits <= 128 && IsWithin(address, *range, bits);
}

bool IsThisMachine(const HostPort& server) {
  if (server.host == "localhost" || absl::EndsWith(server.host, ".localhost")) {
    return true;
  }
  const absl::optional<Address> address = ParseAddress(server.host);
  return address.has_value() &&
         (IsInRange(*address, "127.0.0.0/8") || IsInRange(*address, "::1/128") ||
          IsInRange(*address, "0.0.0.0/32") || IsInRange(*address, "::/128"));
}

// Returns whether an entry of no_proxy covers the server.
bool Matches(const HostPort& server, absl::string_view entry) {
  if (entry == "*") {
    return true;
  }
  const absl::optional<Address> address = ParseAddress(server.host);
  if (absl::StrContains(entry, '/')) {
    return address.has_value() && IsInRange(*address, entry);
  }
  HostPort wanted = SplitHostPort(entry);
  if (!wanted.port.empty() && wanted.port != server.port) {
    return false;
  }
  if (address.has_value()) {
    return ParseAddress(wanted.host) == address;
  }
  wanted.host = std::string(absl::StripPrefix(wanted.host, "*"));
  wanted.host = std::string(absl::StripPrefix(wanted.host, "."));
  return !wanted.host.empty() &&
         (server.host == wanted.host || absl::EndsWith(server.host, "." + wanted.host));
}

bool IsExcluded(const HostPort& server, EnvironmentReader environment) {
  return absl::c_any_of(kDirectVariables, [&](const char* name) {
    const char* value = environment(name);
    if (value == nullptr) {
      return false;
    }
    const std::vector<absl::string_view> entries =
        absl::StrSplit(value, absl::ByAnyChar(", \t"), absl::SkipEmpty());
    return absl::c_any_of(entries, [&](absl::string_view entry) { return Matches(server, entry); });
  });
}

bool IsUnixTarget(absl::string_view target) {
  return absl::StartsWith(target, "unix:") || absl::StartsWith(target, "unix-abstract:");
}

// Returns the HOST:PORT that a gRPC target names; absent for unix sockets, lists of addresses and
// other resolvers.
absl::optional<std::string> ServerOf(absl::string_view target) {
  if (absl::ConsumePrefix(&target, "dns:")) {
    if (absl::ConsumePrefix(&target, "//")) {
      const size_t slash = target.find('/');
      target.remove_prefix(slash == absl::string_view::npos ? target.size() : slash + 1);
    }
  } else if (absl::ConsumePrefix(&target, "ipv4:") || absl::ConsumePrefix(&target, "ipv6:")) {
    absl::ConsumePrefix(&target, "///");
    if (absl::StrContains(target, ',')) {
      return absl::nullopt;
    }
  } else if (IsUnixTarget(target) || absl::StrContains(target, "://")) {
    return absl::nullopt;
  }
  return std::string(target);
}

// Decodes percent escapes: `%41` is `A`.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t code = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::SimpleHexAtoi(text.substr(i + 1, 2), &code)) {
      plain += static_cast<char>(code);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool IsPort(absl::string_view text) {
  int port = 0;
  return absl::c_all_of(text, [](char c) { return c >= '0' && c <= '9'; }) &&
         absl::SimpleAtoi(text, &port) && port >= 1 && port <= kMaxPort;
}

absl::StatusOr<ProxyRoute> ParseProxy(absl::string_view url, const std::string& source) {
  ProxyRoute route;
  route.source = source;
  absl::string_view rest = absl::StripAsciiWhitespace(url);
  if (const size_t scheme = rest.find("://"); scheme != absl::string_view::npos) {
    if (!absl::EqualsIgnoreCase(rest.substr(0, scheme), "http")) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": gRPC supports HTTP proxies only, not ", rest.substr(0, scheme),
                       "://; give http://HOST:PORT, or name the server in no_proxy"));
    }
    rest.remove_prefix(scheme + 3);
  }
  const size_t slash = rest.find('/');
  // A `/` in a password would end the host, and error texts would show the start of the password as
  // the port.
  const bool is_cut_password =
      slash != absl::string_view::npos && absl::StrContains(rest.substr(slash), '@');
  rest = rest.substr(0, slash);
  if (const size_t at = rest.rfind('@'); at != absl::string_view::npos) {
    route.credentials = Unescaped(rest.substr(0, at));
    rest.remove_prefix(at + 1);
  }
  const HostPort split = SplitHostPort(rest);
  if (split.host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(source,
                                                   ": the proxy has no host; give "
                                                   "http://HOST:PORT"));
  }
  if (is_cut_password || !(split.port.empty() || IsPort(split.port))) {
    return absl::InvalidArgumentError(absl::StrCat(source,
                                                   ": the proxy's port must be a number from 1 to ",
                                                   kMaxPort, "; write / as %2F in a password"));
  }
  const std::string port = split.port.empty() ? kDefaultProxyPort : split.port;
  route.proxy = absl::StrContains(split.host, ':') ? absl::StrCat("[", split.host, "]:", port)
                                                   : absl::StrCat(split.host, ":", port);
  return route;
}

}  // namespace

absl::StatusOr<absl::optional<ProxyRoute>> FindProxy(absl::string_view target,
                                                     const absl::optional<std::string>& chosen,
                                                     EnvironmentReader environment) {
  const absl::optional<std::string> server = ServerOf(target);
  if (!server.has_value() && chosen.has_value() && !chosen->empty() && !IsUnixTarget(target)) {
    return absl::InvalidArgumentError(
        "proxy: one tunnel leads to one address; give a target of one HOST:PORT");
  }
  if (!server.has_value() || (chosen.has_value() && chosen->empty())) {
    return absl::optional<ProxyRoute>();
  }
  std::string url = chosen.value_or("");
  std::string source = "ClientOptions::proxy";
  if (!chosen.has_value()) {
    const HostPort split = SplitHostPort(*server);
    for (const char* name : kProxyVariables) {
      const char* value = environment(name);
      if (value != nullptr && *value != '\0') {
        url = value;
        source = name;
        break;
      }
    }
    if (url.empty() || IsThisMachine(split) || IsExcluded(split, environment)) {
      return absl::optional<ProxyRoute>();
    }
  }
  absl::StatusOr<ProxyRoute> route = ParseProxy(url, source);
  if (!route.ok()) {
    return route.status();
  }
  route->server = *server;
  return absl::optional<ProxyRoute>(*std::move(route));
}

absl::StatusOr<absl::optional<ProxyRoute>> FindProxy(absl::string_view target,
                                                     const absl::optional<std::string>& chosen) {
  return FindProxy(target, chosen,
                   [](const char* name) -> const char* { return std::getenv(name); });
}

std::string ToString(const ProxyRoute& route) {
  return absl::StrCat("through the proxy ", route.proxy, " (from ", route.source, ")");
}

absl::Status NameProxy(const absl::Status& status, const absl::optional<ProxyRoute>& route) {
  if (!route.has_value() || !(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))) {
    return status;
  }
  absl::Status named(status.code(), absl::StrCat(status.message(), "; ", ToString(*route)));
  status.ForEachPayload([&named](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

}  // namespace canopy::client
