// Parses the head of an HTTP/1.x request and formats the head of its answer, without sockets.
// Supports only the part of HTTP that a page for Prometheus needs. Request bodies are never read.
#ifndef SERVER_NET_HTTP_REQUEST_H_
#define SERVER_NET_HTTP_REQUEST_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy::server {

// The most bytes of a request's head: its first line and its header fields.
inline constexpr size_t kMaxHttpHeadBytes = 8 << 10;

struct HttpRequest {
  std::string method;
  std::string path;         // without query, scheme and host
  bool keep_alive = false;  // the client wants to send another request on the connection
  bool has_body = false;    // bytes of a body follow the head
  size_t head_bytes = 0;
};

struct HttpParse {
  enum class State { kIncomplete, kDone, kRefused };

  State state = State::kIncomplete;
  HttpRequest request;        // set if the state is done
  int status = 0;             // the status of the answer if the request is refused: 400, 431 or 505
  absl::string_view problem;  // the reason in words, for the answer's body
};

// Parses the bytes of a request that have arrived. A head of more than kMaxHttpHeadBytes is refused
// as early as possible. Lines may end with CRLF or LF.
HttpParse ParseHttpRequest(absl::string_view bytes);

struct HttpAnswer {
  int status = 200;
  absl::string_view content_type = "text/plain; charset=utf-8";
  absl::string_view body;
  bool sends_body = true;   // false for HEAD; the head of the answer is that of GET
  bool keep_alive = false;  // if false, the connection is closed after the answer
};

// Returns the bytes of an answer. A 405 names the allowed methods, GET and HEAD.
std::string FormatHttpAnswer(const HttpAnswer& answer);

}  // namespace canopy::server

#endif  // SERVER_NET_HTTP_REQUEST_H_
