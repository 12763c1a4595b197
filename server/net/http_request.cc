#include "server/net/http_request.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace canopy::server {
namespace {

HttpParse Refused(int status, absl::string_view problem) {
  HttpParse parse;
  parse.state = HttpParse::State::kRefused;
  parse.status = status;
  parse.problem = problem;
  return parse;
}

// Returns whether `text` is a token of RFC 9110, 5.6.2.
bool IsToken(absl::string_view text) {
  constexpr absl::string_view kSymbols = "!#$%&'*+-.^_`|~";
  return !text.empty() && absl::c_all_of(text, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(kSymbols, c);
  });
}

bool HasControlCharacter(absl::string_view text) {
  return absl::c_any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

// Removes the next line from `bytes` and returns it without its end; nullopt if it has not arrived
// yet.
std::optional<absl::string_view> TakeLine(absl::string_view* bytes) {
  const size_t end = bytes->find('\n');
  if (end == absl::string_view::npos) {
    return std::nullopt;
  }
  absl::string_view line = bytes->substr(0, end);
  bytes->remove_prefix(end + 1);
  absl::ConsumeSuffix(&line, "\r");
  return line;
}

// Returns the path of a target in origin-form ("/metrics?x") or absolute-form
// ("http://host/metrics").
std::optional<std::string> PathOf(absl::string_view target) {
  if (!absl::StartsWith(target, "/")) {
    const size_t scheme = target.find("://");
    if (scheme == absl::string_view::npos ||
        (!absl::EqualsIgnoreCase(target.substr(0, scheme), "http") &&
         !absl::EqualsIgnoreCase(target.substr(0, scheme), "https"))) {
      return std::nullopt;
    }
    target.remove_prefix(scheme + 3);
    const size_t host_end = target.find_first_of("/?");
    if (host_end == 0 || target.empty()) {
      return std::nullopt;
    }
    target.remove_prefix(std::min(host_end, target.size()));
  }
  const absl::string_view path = target.substr(0, target.find('?'));
  return path.empty() ? "/" : std::string(path);
}

// Parses "GET /metrics HTTP/1.1" into `parse`. Returns false if the request is refused.
bool ReadFirstLine(absl::string_view line, HttpParse* parse) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsToken(words[0]) || HasControlCharacter(line)) {
    *parse = Refused(400, "the first line is not METHOD TARGET HTTP/1.1");
    return false;
  }
  const absl::string_view version = words[2];
  const bool is_version = version.size() == 8 && absl::StartsWith(version, "HTTP/") &&
                          absl::ascii_isdigit(static_cast<unsigned char>(version[5])) &&
                          version[6] == '.' &&
                          absl::ascii_isdigit(static_cast<unsigned char>(version[7]));
  if (!is_version) {
    *parse = Refused(400, "the first line is not METHOD TARGET HTTP/1.1");
    return false;
  }
  if (version[5] != '1') {
    *parse = Refused(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    return false;
  }
  parse->request.method = std::string(words[0]);
  // Connections of HTTP/1.0 are always closed, because keeping one open would need a header.
  parse->request.keep_alive = version[7] != '0';
  if (const std::optional<std::string> path = PathOf(words[1]); path.has_value()) {
    parse->request.path = *path;
  } else if (words[0] == "GET" || words[0] == "HEAD") {
    *parse = Refused(400, "the target is neither a path nor http://HOST/PATH");
    return false;
  }
  return true;
}

// Parses fields such as "Connection: close". Returns false if the request is refused.
bool ReadField(absl::string_view line, HttpParse* parse) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon)) ||
      HasControlCharacter(line)) {
    *parse = Refused(400, "a header field is not NAME: VALUE");
    return false;
  }
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (absl::EqualsIgnoreCase(name, "Connection")) {
    for (const absl::string_view option : absl::StrSplit(value, ',')) {
      // `keep-alive` is the default of HTTP/1.1 and does not override `close`.
      if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(option), "close")) {
        parse->request.keep_alive = false;
      }
    }
  } else if (absl::EqualsIgnoreCase(name, "Transfer-Encoding")) {
    parse->request.has_body = true;
  } else if (absl::EqualsIgnoreCase(name, "Content-Length")) {
    uint64_t size = 0;
    if (!absl::c_all_of(value, [](char c) { return c >= '0' && c <= '9'; }) ||
        !absl::SimpleAtoi(value, &size)) {
      *parse = Refused(400, "Content-Length is not a number");
      return false;
    }
    parse->request.has_body = parse->request.has_body || size > 0;
  }
  return true;
}

absl::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

HttpParse ParseHttpRequest(absl::string_view bytes) {
  const bool is_cut = bytes.size() > kMaxHttpHeadBytes;
  absl::string_view rest = bytes.substr(0, kMaxHttpHeadBytes);
  HttpParse parse;
  bool has_first_line = false;
  while (const std::optional<absl::string_view> line = TakeLine(&rest)) {
    if (!has_first_line) {
      // RFC 9112, 2.2: an empty line before a request is ignored.
      if (line->empty()) {
        continue;
      }
      has_first_line = true;
      if (!ReadFirstLine(*line, &parse)) {
        return parse;
      }
    } else if (line->empty()) {
      parse.state = HttpParse::State::kDone;
      parse.request.head_bytes = static_cast<size_t>(rest.data() - bytes.data());
      return parse;
    } else if (!ReadField(*line, &parse)) {
      return parse;
    }
  }
  if (is_cut) {
    return Refused(431, "the first line and the header fields exceed 8192 bytes");
  }
  return parse;
}

std::string FormatHttpAnswer(const HttpAnswer& answer) {
  return absl::StrCat(
      "HTTP/1.1 ", answer.status, " ", Reason(answer.status),
      "\r\nDate: ", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()),
      "\r\nContent-Type: ", answer.content_type, "\r\nContent-Length: ", answer.body.size(),
      answer.status == 405 ? "\r\nAllow: GET, HEAD" : "",
      answer.keep_alive ? "" : "\r\nConnection: close", "\r\n\r\n",
      answer.sends_body ? answer.body : absl::string_view());
}

}  // namespace canopy::server
