// First reading of a ScoreRequest: everything but its questions, and how much the questions hold.
// Allocates nothing, so that limits are enforced before memory is.
#ifndef SERVER_WIRE_REQUEST_HEAD_H_
#define SERVER_WIRE_REQUEST_HEAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tree/outputs.h"
#include "server/wire/wire_reader.h"

namespace canopy::server {

// canopy.v1.Outputs as sent. Enums may hold unknown values.
struct OutputsFields {
  std::array<uint32_t, kNumOutputs> amounts = {};  // by Output; of a flag 0 or 1
  int32_t vector_dtype = 0;
  bool normalize = false;
  int32_t scope = 0;
  std::optional<float> temperature;
  uint32_t unknown_field = 0;  // number of the first one; 0 = none

  uint32_t amount(Output output) const { return amounts[static_cast<size_t>(output)]; }
  bool asks(Output output) const { return amount(output) != 0; }
};

// canopy.v1.Routing as sent. Enums may hold unknown values.
struct RoutingFields {
  int32_t backend = 0;
  int32_t policy = 0;
  std::optional<int64_t> max_mask_bytes;
  int32_t packing = 0;
  uint32_t unknown_field = 0;  // number of the first one; 0 = none
};

// What the questions hold, counted on the wire.
struct RequestCounts {
  int64_t questions = 0;
  int64_t paths = 0;
  int64_t max_candidates = 0;           // of one question
  int64_t max_candidates_question = 0;  // the first that has so many
  int64_t tokens = 0;                   // as sent: each prefix once
};

// Views of the request's bytes, which must outlive it.
struct RequestHead {
  absl::string_view request_id;
  absl::string_view model;
  OutputsFields outputs;
  RoutingFields routing;
  int32_t priority = 0;
  uint64_t min_model_version = 0;
  absl::string_view vocabulary_hash;
  RequestCounts counts;
};

// INVALID_ARGUMENT naming the field where the bytes stop being a ScoreRequest. Bytes inside packed
// token lists and the text of question and candidate ids are checked by the second reading.
absl::StatusOr<RequestHead> ReadRequestHead(absl::string_view message);

// INVALID_ARGUMENT: "`field`: the bytes are not a canopy.v1.ScoreRequest".
absl::Status MalformedRequestError(absl::string_view field);

// One reading of the fields that Outputs or Routing has; merges into what is there. False when
// malformed.
bool MergeOutputs(WireReader reader, OutputsFields* outputs);
bool MergeRouting(WireReader reader, RoutingFields* routing);

}  // namespace canopy::server

#endif  // SERVER_WIRE_REQUEST_HEAD_H_
