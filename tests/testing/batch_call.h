// A batch that was submitted to an engine with a FakeRunner, and its expected answer.
#ifndef TESTS_TESTING_BATCH_CALL_H_
#define TESTS_TESTING_BATCH_CALL_H_

#include <cstdint>
#include <memory>

#include "core/engine/types.h"
#include "core/tree/path_batch.h"
#include "tests/testing/answer.h"

namespace canopy::testing {

struct BatchCall : Answer {
  std::shared_ptr<const PathBatch> batch;
  JobId id = 0;
};

// Waits for the answer. Expects every path's FakeScore, and no score for paths that contain
// `poison`.
void ExpectFakeScores(BatchCall* call, int32_t poison);

}  // namespace canopy::testing

#endif  // TESTS_TESTING_BATCH_CALL_H_
