// Computes the fingerprint of a model. Models with equal fingerprints give the same answers, apart
// from differences in how they are computed. docs/WEIGHTS.md publishes the recipe;
// tests/fingerprint implements it in Python.
#ifndef CORE_CHECKPOINT_FINGERPRINT_H_
#define CORE_CHECKPOINT_FINGERPRINT_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

struct HashOptions {
  int num_threads = 1;
  // Called between steps, from the calling thread.
  WantedCheck check_wanted;
};

// Returns the first 16 hexadecimal digits (lower case) of the SHA-256 of
//   "canopy fingerprint 2\n"
//   u64 number of settings; for each in name order: string name, string value
//   u64 number of tensors; for each in name order: string name, string dtype ("BF16"), u64 rank,
//     u64 for each dimension, the 32 bytes of the SHA-256 of its data
// where u64 is 8 bytes, little-endian, and a string is its u64 length in bytes and the bytes.
// `settings` must come from NonDefaultSettings. The distribution of tensors over files makes no
// difference. Reads every byte once. Returns INTERNAL if OpenSSL fails, and the errors of
// check_wanted.
absl::StatusOr<std::string> Fingerprint(const std::map<std::string, std::string>& settings,
                                        const WeightSource& source,
                                        const HashOptions& options = {});

// Returns the first 16 hexadecimal digits of the SHA-256 of `text`. It identifies a vocabulary.
// Returns INTERNAL if OpenSSL fails.
absl::StatusOr<std::string> ShortHash(absl::string_view text);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_FINGERPRINT_H_
