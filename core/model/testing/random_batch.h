// Seeded path batches for tests of the forward pass: paths of different lengths, with shared
// prefixes, duplicates, paths inside others and several roots.
#ifndef CORE_MODEL_TESTING_RANDOM_BATCH_H_
#define CORE_MODEL_TESTING_RANDOM_BATCH_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/tree/path_batch.h"

namespace canopy {

// Returns `questions` questions of 2 to 10 candidates, with paths of 1 to `max_length` tokens in 0
// .. 2.
inline std::shared_ptr<const PathBatch> RandomBatch(uint32_t seed, int32_t questions,
                                                    int32_t max_length) {
  std::mt19937 random(seed);
  const auto below = [&](int32_t limit) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
  };
  const auto tokens = [&](int32_t size) {
    std::vector<int32_t> ids(static_cast<size_t>(size));
    std::generate(ids.begin(), ids.end(), [&] { return below(3); });
    return ids;
  };
  auto batch = std::make_shared<PathBatch>();
  batch->question_offsets = {0};
  for (int32_t question = 0; question < questions; ++question) {
    const int32_t prefix = below(max_length);
    std::vector<std::vector<int32_t>> suffixes(static_cast<size_t>(1 + below(9)));
    for (std::vector<int32_t>& suffix : suffixes) {
      suffix = tokens(std::max(prefix == 0 ? 1 : 0, below(max_length - prefix + 1)));
    }
    suffixes.push_back(suffixes.front());
    batch->AddQuestion(tokens(prefix), suffixes);
  }
  return batch;
}

}  // namespace canopy

#endif  // CORE_MODEL_TESTING_RANDOM_BATCH_H_
