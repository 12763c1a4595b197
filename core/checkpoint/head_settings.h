// Reads the small files of a checkpoint folder that say how its scores are computed.
#ifndef CORE_CHECKPOINT_HEAD_SETTINGS_H_
#define CORE_CHECKPOINT_HEAD_SETTINGS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/checkpoint/folder_snapshot.h"

namespace canopy {

// The divisors of the scores for each kind of question.
struct DecisionTemperatures {
  double boolean = 1;
  double choice = 1;
  double score = 1;
};

// Reads temperatures.json, {kind: {"temperature": t}}, with t from 0.05 to 20. Other keys of a kind
// describe how its temperature was found and are ignored. The temperature is 1 if the kind or the
// file is absent. Returns DATA_LOSS, naming file and key, for other contents, and the errors of
// FolderSnapshot::ReadText.
absl::StatusOr<DecisionTemperatures> ReadTemperatures(FolderSnapshot* folder);

// The token ids of the two words whose logits a yes/no reranker compares.
struct RerankerTokens {
  int64_t yes = 0;
  int64_t no = 0;
};

// Returns INVALID_ARGUMENT, naming the value, if a token is outside the vocabulary or both are
// equal.
absl::Status CheckRerankerTokens(const RerankerTokens& tokens, int64_t vocab_size);

// Reads reranker.json, {"yes_token": id, "no_token": id}. Returns nullopt if there is no such file,
// DATA_LOSS, naming the file, for other contents, and the errors of FolderSnapshot::ReadText.
absl::StatusOr<std::optional<RerankerTokens>> ReadRerankerTokens(FolderSnapshot* folder);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_HEAD_SETTINGS_H_
