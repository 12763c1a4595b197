// Converts the bytes of a ScoreRequest to a job that the engine can run, or returns the error that
// the contract prescribes. The checks come in this order, and the first that fails determines the
// error:
//
//   1. malformed bytes, counts over a limit           INVALID_ARGUMENT, before memory is allocated
//   2. the model is not loaded                        NOT_FOUND
//   3. wrong values, up to 16 of them                 INVALID_ARGUMENT
//   4. an output that the model has no head for, or
//      that does not fit an answer                    INVALID_ARGUMENT
//   5. version, vocabulary, backend, policy           FAILED_PRECONDITION
#ifndef SERVER_WIRE_REQUEST_VALIDATOR_H_
#define SERVER_WIRE_REQUEST_VALIDATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/types.h"
#include "core/tree/route.h"
#include "server/wire/request_decoder.h"
#include "server/wire/request_head.h"

namespace canopy::server {

// Limits on one request. Each is at least 1, except max_mask_bytes, which is at least 0.
struct RequestLimits {
  int64_t max_questions = 4'096;
  int64_t max_candidates = 65'536;  // per question
  int64_t max_paths = 65'536;       // candidates of all questions
  int64_t max_tokens = 4 << 20;     // as sent: each prefix counts once; below 2^31
  int64_t max_mask_bytes = kDefaultMaxMaskBytes;
};

// A request that passed every check. Views the bytes of the message.
struct PreparedRequest {
  RequestHead head;
  DecodedQuestions questions;  // its batch was moved into the job
  ScoreJob job;                // the caller sets the deadline and the id for cancellation
  std::shared_ptr<const ModelInfo> model;
};

// Returns the model with this name, '' = the first; NOT_FOUND if it is not loaded.
using ModelLookup =
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const ModelInfo>>(absl::string_view)>;

// Hints for the client or operator about a request, whether or not it is refused.
struct RequestNotes {
  std::string suspicious_raw;  // as in DecodedQuestions::suspicious_raw
};

// Checks and converts a request. `message` must outlive the result. `notes` may be null.
absl::StatusOr<PreparedRequest> PrepareRequest(absl::string_view message,
                                               const RequestLimits& limits, ModelLookup find_model,
                                               RequestNotes* notes = nullptr);

}  // namespace canopy::server

#endif  // SERVER_WIRE_REQUEST_VALIDATOR_H_
