#include "server/wire/pad_ending.h"

#include <cstddef>
#include <cstdint>

namespace canopy::server {

bool ScoresAPadEndedPath(const PathBatch& batch, const OutputSelection& outputs,
                         const ModelInfo& model) {
  if (!outputs.scores || !model.pad_token.has_value()) {
    return false;
  }
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      // A path is never empty; without a suffix it ends with its prefix.
      const TokenSpan& suffix = batch.suffixes[path];
      const TokenSpan& last = suffix.size > 0 ? suffix : batch.prefixes[question];
      if (batch.Tokens(last).back() == *model.pad_token) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace canopy::server
