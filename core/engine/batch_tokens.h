// The default number of tokens that one forward computes.
#ifndef CORE_ENGINE_BATCH_TOKENS_H_
#define CORE_ENGINE_BATCH_TOKENS_H_

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace canopy {

inline constexpr int64_t kCpuBatchTokens = 16'384;
inline constexpr int64_t kCudaBatchTokens = 65'536;

// Returns the token budget of a forward on `device`, "cpu" or "cuda:N".
inline int64_t DefaultBatchTokens(absl::string_view device) {
  return absl::StartsWith(device, "cuda") ? kCudaBatchTokens : kCpuBatchTokens;
}

}  // namespace canopy

#endif  // CORE_ENGINE_BATCH_TOKENS_H_
