// The rules that a question's kind sets for its candidates: their number, and that no two are
// equal.
#ifndef SERVER_WIRE_KIND_RULES_H_
#define SERVER_WIRE_KIND_RULES_H_

#include <cstdint>
#include <optional>

#include "canopy/v1/types.pb.h"
#include "core/engine/decision.h"
#include "core/tree/path_batch.h"
#include "server/wire/violations.h"

namespace canopy::server {

inline constexpr int32_t kMaxKindCandidates = 255;
inline constexpr int32_t kMinLevels = 2;
inline constexpr int32_t kMaxLevels = 10;

// Precondition: `kind` is a known value.
QuestionKind ToQuestionKind(int32_t kind);

// Returns the first rule that question `question` of `batch` breaks as a question of kind `kind`.
// The field of the violation is relative to the question, such as ".candidates[2].tokens". Plain
// and unknown kinds have no rules.
std::optional<Violation> FindKindViolation(int32_t kind, const PathBatch& batch, int32_t question);

}  // namespace canopy::server

#endif  // SERVER_WIRE_KIND_RULES_H_
