// The first pass over a ScoreRequest: reads everything except its questions, and counts what the
// questions contain. Allocates nothing, so that limits are enforced before memory is allocated.
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

// canopy.v1.Outputs as sent. Enums may have unknown values.
struct OutputsFields {
  std::array<uint32_t, kNumOutputs> amounts = {};  // indexed by Output; 0 or 1 for a flag
  int32_t vector_dtype = 0;
  bool normalize = false;
  int32_t scope = 0;
  std::optional<float> temperature;
  uint32_t unknown_field = 0;  // the number of the first unknown field; 0 = none

  uint32_t amount(Output output) const { return amounts[static_cast<size_t>(output)]; }
  bool asks(Output output) const { return amount(output) != 0; }
};

// canopy.v1.Routing as sent. Enums may have unknown values.
struct RoutingFields {
  int32_t backend = 0;
  int32_t policy = 0;
  std::optional<int64_t> max_mask_bytes;
  int32_t packing = 0;
  uint32_t unknown_field = 0;  // the number of the first unknown field; 0 = none
};

// The contents of the questions, counted on the wire.
struct RequestCounts {
  int64_t questions = 0;
  int64_t paths = 0;
  int64_t max_candidates = 0;           // the most candidates of one question
  int64_t max_candidates_question = 0;  // the first question with that many
  int64_t tokens = 0;                   // as sent: each prefix counts once
};

// Views of the request's bytes, which must outlive the head.
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

// Reads the head. Returns INVALID_ARGUMENT with the name of the field at which the bytes are not a
// ScoreRequest any more. The second pass checks the bytes of packed token lists and the text of
// question and candidate ids.
absl::StatusOr<RequestHead> ReadRequestHead(absl::string_view message);

// Returns INVALID_ARGUMENT with the text "`field`: the bytes are not a canopy.v1.ScoreRequest".
absl::Status MalformedRequestError(absl::string_view field);

// Read one occurrence of Outputs or Routing and merge its fields into the earlier ones. Return
// false if the bytes are malformed.
bool MergeOutputs(WireReader reader, OutputsFields* outputs);
bool MergeRouting(WireReader reader, RoutingFields* routing);

}  // namespace canopy::server

#endif  // SERVER_WIRE_REQUEST_HEAD_H_
