// Reads the head of an HTTP/1.x request and writes the head of its answer: bytes in, bytes out,
// without sockets. Only as much of HTTP as a page for Prometheus needs; bodies of requests are
// never read.
#ifndef SERVER_NET_HTTP_REQUEST_H_
#define SERVER_NET_HTTP_REQUEST_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy::server {

// The longest head of a request: its first line and its header fields.
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
  HttpRequest request;        // if done
  int status = 0;             // of the answer, if refused: 400, 431 or 505
  absl::string_view problem;  // in words, for the answer's body
};

// Reads as much of a request as has arrived. A head that is longer than kMaxHttpHeadBytes is
// refused as soon as that is known. Lines may end with CRLF or LF.
HttpParse ParseHttpRequest(absl::string_view bytes);

struct HttpAnswer {
  int status = 200;
  absl::string_view content_type = "text/plain; charset=utf-8";
  absl::string_view body;
  bool sends_body = true;   // false for HEAD, whose answer has the head that GET's would have
  bool keep_alive = false;  // otherwise the connection is closed behind the answer
};

// Returns the bytes of an answer. 405 names the methods that are allowed, GET and HEAD.
std::string FormatHttpAnswer(const HttpAnswer& answer);

}  // namespace canopy::server

#endif  // SERVER_NET_HTTP_REQUEST_H_
