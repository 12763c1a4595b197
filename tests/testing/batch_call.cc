#include "tests/testing/batch_call.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_runner.h"

namespace canopy::testing {

void ExpectFakeScores(BatchCall* call, int32_t poison) {
  const absl::StatusOr<ScoreResult>& result = call->Await();
  ASSERT_TRUE(result.ok()) << result.status();
  const PathBatch& batch = *call->batch;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const auto prefix = batch.Tokens(batch.prefixes[question]);
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      const auto suffix = batch.Tokens(batch.suffixes[path]);
      std::vector<int32_t> tokens(prefix.begin(), prefix.end());
      tokens.insert(tokens.end(), suffix.begin(), suffix.end());
      if (std::find(tokens.begin(), tokens.end(), poison) != tokens.end()) {
        EXPECT_TRUE(std::isnan(result->scores[path])) << "path " << path;
      } else {
        EXPECT_EQ(result->scores[path], FakeScore(tokens, 0)) << "path " << path;
      }
    }
  }
}

}  // namespace canopy::testing
