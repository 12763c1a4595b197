// One HTTP/1.1 request and its answer on a connected socket: just enough for a page that only
// programs of ours and Prometheus read.
#ifndef SERVER_HTTP_EXCHANGE_H_
#define SERVER_HTTP_EXCHANGE_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy::server {

// Reads a request from the non-blocking socket `fd` and answers it: 200 with `render()` for GET
// `path`, else 404, 405 or 400; nothing at all to a peer that takes longer than two seconds in
// either direction. Leaves `fd` open.
void AnswerHttp(int fd, absl::string_view path, const std::function<std::string()>& render);

}  // namespace canopy::server

#endif  // SERVER_HTTP_EXCHANGE_H_
