// Which vocabulary a model folder speaks, so that a client with another tokenizer is refused.
#ifndef CORE_ENGINE_VOCABULARY_HASH_H_
#define CORE_ENGINE_VOCABULARY_HASH_H_

#include <string>

#include "absl/status/statusor.h"

namespace canopy {

// The first 16 hexadecimal digits (lower case) of the SHA-256 of `folder`/tokenizer.json; empty
// when there is none. Otherwise the error of reading it.
absl::StatusOr<std::string> VocabularyHash(const std::string& folder);

}  // namespace canopy

#endif  // CORE_ENGINE_VOCABULARY_HASH_H_
