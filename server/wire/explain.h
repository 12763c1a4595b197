// Explain: plans and routes a request without running it, and draws its forest.
#ifndef SERVER_WIRE_EXPLAIN_H_
#define SERVER_WIRE_EXPLAIN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "canopy/v1/scorer.pb.h"
#include "core/engine/engine.h"
#include "server/wire/request_validator.h"

namespace canopy::server {

inline constexpr uint32_t kDefaultSvgSegments = 2'000;
// A picture with more runs is not readable, and each run costs hundreds of bytes.
inline constexpr uint32_t kMaxSvgSegments = 100'000;

// The fields of an ExplainRequest. Its inner request is not parsed.
struct ExplainFields {
  absl::string_view request;
  bool svg = false;
  uint32_t max_svg_segments = kDefaultSvgSegments;
};

// Returns INVALID_ARGUMENT for malformed bytes, two inner requests, or too many segments.
absl::StatusOr<ExplainFields> ReadExplainRequest(absl::string_view message);

// Plans on the caller's thread, which takes up to a second for the largest requests. Returns the
// errors of Engine::Plan.
absl::StatusOr<v1::ExplainResponse> ExplainRequest(const ExplainFields& fields,
                                                   const PreparedRequest& request,
                                                   const Engine& engine);

}  // namespace canopy::server

#endif  // SERVER_WIRE_EXPLAIN_H_
