// Small files beside a checkpoint that say how its scores are to be read.
#ifndef CORE_CHECKPOINT_HEAD_SETTINGS_H_
#define CORE_CHECKPOINT_HEAD_SETTINGS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checkpoint/folder_snapshot.h"

namespace canopy {

// What the scores of each kind of question are divided by.
struct DecisionTemperatures {
  double boolean = 1;
  double choice = 1;
  double score = 1;
};

// Reads temperatures.json, {kind: {"temperature": t}}, with t from 0.05 to 20; other keys
// beside a temperature describe how it was found and are ignored. A kind or a file that is absent
// means 1. DATA_LOSS, naming file and key, for anything else; errors of FolderSnapshot::ReadText.
absl::StatusOr<DecisionTemperatures> ReadTemperatures(FolderSnapshot* folder);

// Token ids of the two words whose logits a yes/no reranker compares.
struct RerankerTokens {
  int64_t yes = 0;
  int64_t no = 0;
};

// INVALID_ARGUMENT, naming the value, if a token is outside the vocabulary or both are the same.
absl::Status CheckRerankerTokens(const RerankerTokens& tokens, int64_t vocab_size);

// Reads reranker.json, {"yes_token": id, "no_token": id}; nothing when there is none.
// DATA_LOSS, naming the file, for anything else; errors of FolderSnapshot::ReadText.
absl::StatusOr<std::optional<RerankerTokens>> ReadRerankerTokens(FolderSnapshot* folder);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_HEAD_SETTINGS_H_
