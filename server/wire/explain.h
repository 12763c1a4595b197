// Explain: how a request would be planned and routed, and the picture of its forest.
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
// A picture of more runs is of no use to an eye, and each costs hundreds of bytes.
inline constexpr uint32_t kMaxSvgSegments = 100'000;

// An ExplainRequest whose inner request is still bytes.
struct ExplainFields {
  absl::string_view request;
  bool svg = false;
  uint32_t max_svg_segments = kDefaultSvgSegments;
};

// INVALID_ARGUMENT for malformed bytes, two inner requests, or too many segments asked for.
absl::StatusOr<ExplainFields> ReadExplainRequest(absl::string_view message);

// Plans on the caller's thread: up to a second for the largest requests. Errors as Engine::Plan.
absl::StatusOr<v1::ExplainResponse> ExplainRequest(const ExplainFields& fields,
                                                   const PreparedRequest& request,
                                                   const Engine& engine);

}  // namespace canopy::server

#endif  // SERVER_WIRE_EXPLAIN_H_
