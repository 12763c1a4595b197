// Seeded random batches, and named batches with unusual shapes, for tests.
#ifndef CORE_TREE_TESTING_RANDOM_BATCH_H_
#define CORE_TREE_TESTING_RANDOM_BATCH_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/tree/path_batch.h"

namespace canopy::testing {

// Returns the seed of test number `index`. Tests print it when they fail.
inline uint64_t Seed(int index) { return 20'000 + static_cast<uint64_t>(index); }

// Returns 1 to 6 questions of 1 to 12 candidates. Their tokens have few distinct values, so that
// paths share nodes. Some candidates repeat another one, end inside it, extend it, or have no
// tokens of their own.
PathBatch RandomBatch(std::mt19937_64& random);

struct NamedBatch {
  std::string name;
  PathBatch batch;
};

// Returns batches with duplicates, a path inside another, several roots, one token, 255 candidates,
// questions of very different sizes, an empty prefix, a candidate equal to the prefix, and more.
std::vector<NamedBatch> NamedBatches();

}  // namespace canopy::testing

#endif  // CORE_TREE_TESTING_RANDOM_BATCH_H_
