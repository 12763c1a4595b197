// Seeded batches for tests: small ones full of awkward shapes, and the awkward shapes by name.
#ifndef CORE_TREE_TESTING_RANDOM_BATCH_H_
#define CORE_TREE_TESTING_RANDOM_BATCH_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/tree/path_batch.h"

namespace canopy::testing {

// The seed of test number `index`: print it where the test fails.
inline uint64_t Seed(int index) { return 20'000 + static_cast<uint64_t>(index); }

// 1 to 6 questions of 1 to 12 candidates over few distinct tokens, so that paths share nodes. Some
// candidates repeat another, stop inside it, go on behind it, or have no tokens of their own.
PathBatch RandomBatch(std::mt19937_64& random);

struct NamedBatch {
  std::string name;
  PathBatch batch;
};

// Duplicates, a path inside another, several roots, one token, 255 candidates, skewed sizes, empty
// prefix, a candidate that is the whole prefix, ...
std::vector<NamedBatch> NamedBatches();

}  // namespace canopy::testing

#endif  // CORE_TREE_TESTING_RANDOM_BATCH_H_
