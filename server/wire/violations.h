// The wrong fields of a request, in request order, for google.rpc.BadRequest.
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
  // The description without contents of the request, for the log; '' = none.
  std::string log_description = {};
};

// Keeps the first kMax violations. Thread-compatible.
class Violations {
 public:
  static constexpr size_t kMax = 16;

  void Add(std::string field, std::string description, std::string log_description = "") {
    if (!full()) {
      list_.push_back({std::move(field), std::move(description), std::move(log_description)});
    }
  }
  // Returns true if no further violation will be kept, so that the rest of the request need not be
  // read.
  bool full() const { return list_.size() == kMax; }
  bool empty() const { return list_.empty(); }
  const std::vector<Violation>& list() const { return list_; }

  // Returns an error of `code` whose text lists the violations and whose payload is a
  // google.rpc.BadRequest, which server/wire/grpc_status passes on. Returns OK if there are no
  // violations. The log names the first violation.
  absl::Status ToStatus(absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;

 private:
  std::vector<Violation> list_;
};

}  // namespace canopy::server

#endif  // SERVER_WIRE_VIOLATIONS_H_
