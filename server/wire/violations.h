// The places of a request that are wrong, in request order, for google.rpc.BadRequest.
#ifndef SERVER_WIRE_VIOLATIONS_H_
#define SERVER_WIRE_VIOLATIONS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace canopy::server {

struct Violation {
  std::string field;        // "questions[3].candidates[7].tokens"
  std::string description;  // "2100 tokens exceed max_path_tokens 2048"
  // The description without contents of the request, for the log; '' if it has none.
  std::string log_description = {};
};

// Keeps the first kMax of them. Thread-compatible.
class Violations {
 public:
  static constexpr size_t kMax = 16;

  void Add(std::string field, std::string description, std::string log_description = "") {
    if (!full()) {
      list_.push_back({std::move(field), std::move(description), std::move(log_description)});
    }
  }
  // Nothing more will be kept: the rest of the request need not be looked at.
  bool full() const { return list_.size() == kMax; }
  bool empty() const { return list_.empty(); }
  const std::vector<Violation>& list() const { return list_; }

  // An error of `code` whose text is the violations and whose payload is a google.rpc.BadRequest,
  // which server/wire/grpc_status passes on; OK when there are none. The log names the first of
  // them.
  absl::Status ToStatus(absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;

 private:
  std::vector<Violation> list_;
};

}  // namespace canopy::server

#endif  // SERVER_WIRE_VIOLATIONS_H_
