// Checks that a model has the heads for the requested outputs, and that they fit an answer.
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

// The most bytes of vectors and per-token lists in one answer: protobuf's 2 GiB, less room for the
// rest. A list of top log-probs counts with its size in memory, which is larger than on the wire.
inline constexpr int64_t kMaxAnswerBytes = (int64_t{2} << 30) - (int64_t{256} << 20);

// Returns the outputs that the model can compute, as GetModel lists them.
std::vector<std::string> HeadNames(const ModelInfo& model);

// Returns INVALID_ARGUMENT with a violation for each output that the model has no head for.
absl::Status CheckHeads(const OutputsFields& outputs, const ModelInfo& model);

// Returns the names of the fields of Outputs that the answer contains.
std::vector<std::string> OutputNames(const OutputSelection& outputs);

// Returns the bytes of the vectors and per-token lists in the answer for `batch`, as they count
// against kMaxAnswerBytes.
int64_t AnswerBytes(const OutputSelection& outputs, const ModelInfo& model, const PathBatch& batch);

// Returns INVALID_ARGUMENT if the answer for `batch` would exceed kMaxAnswerBytes. The error names
// the largest output.
absl::Status CheckAnswerSize(const OutputSelection& outputs, const ModelInfo& model,
                             const PathBatch& batch);

}  // namespace canopy::server

#endif  // SERVER_WIRE_OUTPUT_CHECKS_H_
