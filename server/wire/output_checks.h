// Whether a model has the heads that a request's outputs need, and an answer room for them.
#ifndef SERVER_WIRE_OUTPUT_CHECKS_H_
#define SERVER_WIRE_OUTPUT_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/types.h"
#include "core/tree/path_batch.h"
#include "server/wire/request_head.h"

namespace canopy::server {

// Bytes of vectors and per-token lists that one answer can hold: protobuf's 2 GiB, less room for
// the rest. A list of top log-probs counts as it lies in memory, which is more than on the wire.
inline constexpr int64_t kMaxAnswerBytes = (int64_t{2} << 30) - (int64_t{256} << 20);

// What Outputs can ask of a model, as GetModel lists it.
std::vector<std::string> HeadNames(const ModelInfo& model);

// INVALID_ARGUMENT, a violation for each output that the model has no head for.
absl::Status CheckHeads(const OutputsFields& outputs, const ModelInfo& model);

// Names of Outputs' fields that an answer has.
std::vector<std::string> OutputNames(const OutputSelection& outputs);

// Bytes of vectors and per-token lists in the answer for `batch`, as they count against
// kMaxAnswerBytes.
int64_t AnswerBytes(const OutputSelection& outputs, const ModelInfo& model, const PathBatch& batch);

// INVALID_ARGUMENT when the answer for `batch` would exceed kMaxAnswerBytes, naming the output that
// takes most.
absl::Status CheckAnswerSize(const OutputSelection& outputs, const ModelInfo& model,
                             const PathBatch& batch);

}  // namespace canopy::server

#endif  // SERVER_WIRE_OUTPUT_CHECKS_H_
