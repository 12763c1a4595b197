// Receives an engine's answer to a job, and lets a test wait for it.
#ifndef TESTS_TESTING_ANSWER_H_
#define TESTS_TESTING_ANSWER_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "core/engine/types.h"
#include "gtest/gtest.h"

namespace canopy::testing {

// Must outlive the job. The test may read `result` after the job is `answered`.
struct Answer {
  Notification answered;
  absl::StatusOr<ScoreResult> result = absl::UnknownError("not answered");

  // Returns the callback for Engine::Submit. A second answer fails the test.
  std::function<void(absl::StatusOr<ScoreResult>)> callback() {
    return [this](absl::StatusOr<ScoreResult> answer) {
      ASSERT_FALSE(answered.HasBeenNotified()) << "answered twice";
      result = std::move(answer);
      answered.Notify();
    };
  }
  const absl::StatusOr<ScoreResult>& Await() {
    answered.WaitForNotification();
    return result;
  }
};

}  // namespace canopy::testing

#endif  // TESTS_TESTING_ANSWER_H_
