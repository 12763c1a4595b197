// A ModelRunner without a model. Every result is a hash of the tokens that it depends on, which are
// read from the plan by the ancestor rule, so that a wrong plan or order gives wrong numbers.
//
// Faults are injected by token or by size, and a gate blocks the device while a test looks.
#ifndef TESTS_TESTING_FAKE_RUNNER_H_
#define TESTS_TESTING_FAKE_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "core/engine/model_runner.h"
#include "tests/testing/gate.h"

namespace canopy::testing {

// Returns the score of a path: a multiple of 1/8 in [-1, 1], exact in every VectorType. Each weight
// version has different scores; the functions below return those of version 1.
float FakeScore(absl::Span<const int32_t> path, int64_t label, int64_t version = 1);
std::vector<float> FakeVector(absl::Span<const int32_t> path, int64_t hidden_size,
                              int64_t version = 1);

// The values that are computed from the distribution after `context`. Log-probs and entropy are
// divided by the temperature.
struct FakeDistribution {
  float entropy = 0;
  float min_logit = 0;
  float max_logit = 0;
};
FakeDistribution FakeDistributionAfter(absl::Span<const int32_t> context, float temperature);
float FakeLogprob(absl::Span<const int32_t> context, int32_t token, float temperature);
// Returns the `rank`-th most likely token and its log-prob.
std::pair<int32_t, float> FakeTop(absl::Span<const int32_t> context, int32_t rank,
                                  float temperature);
int32_t FakeRank(absl::Span<const int32_t> context, int32_t token);
float FakeValue(absl::Span<const int32_t> path);
// Returns the score of candidate `index` of a question from a fake whose score_head is kDecision:
// the first element of its own vector, plus the second element of every candidate's vector. Exact
// too.
float FakeDecision(const std::vector<std::vector<float>>& vectors, size_t index);

// Returns a model with 8 hidden units, 1,000 tokens, paths up to 2,048 and one label.
ModelInfo FakeModelInfo();

// The settings of a FakeRunner. The test shares them and may change them while the runner runs.
// Thread-safe.
struct FakeControls {
  Gate gate;       // each forward waits here before it starts
  Gate load_gate;  // each load of replacement weights waits here

  // A path with this token is not finite. On a forest it makes its whole row not finite, as a
  // masked softmax does. -1 = none.
  void PoisonToken(int32_t token) ABSL_LOCKS_EXCLUDED(mutex);
  // On a path with `token`, each output of `outputs` is not finite although the hidden states are,
  // as after an overflow in a head. -1 = none.
  void PoisonOutputs(int32_t token, OutputSet outputs) ABSL_LOCKS_EXCLUDED(mutex);
  // Forwards with more slots run out of device memory. 0 = no limit.
  void LimitSlots(int64_t slots) ABSL_LOCKS_EXCLUDED(mutex);
  // From now on, `first` forwards succeed and the next `count` forwards run out of device memory.
  void FailForwards(int64_t first, int64_t count) ABSL_LOCKS_EXCLUDED(mutex);
  // Every forward fails with `status` until it is set to OK.
  void FailWith(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex);
  // Forwards of this backend fail as if the backend could not run. kAuto = none.
  void FailBackend(Backend backend) ABSL_LOCKS_EXCLUDED(mutex);
  // Sets the time of each forward, and of each of its slots.
  void Pace(absl::Duration forward_time, absl::Duration slot_time = absl::ZeroDuration())
      ABSL_LOCKS_EXCLUDED(mutex);
  // Returns the number of forwards so far, including failed ones.
  int64_t forwards() const ABSL_LOCKS_EXCLUDED(mutex);

  mutable Mutex mutex;
  int32_t poison_token ABSL_GUARDED_BY(mutex) = -1;
  int32_t output_poison_token ABSL_GUARDED_BY(mutex) = -1;
  OutputSet poisoned_outputs ABSL_GUARDED_BY(mutex) = 0;
  int64_t max_slots ABSL_GUARDED_BY(mutex) = 0;
  int64_t first_without_memory ABSL_GUARDED_BY(mutex) = 0;  // counted in num_forwards
  int64_t end_without_memory ABSL_GUARDED_BY(mutex) = 0;
  absl::Status failure ABSL_GUARDED_BY(mutex);
  Backend failing_backend ABSL_GUARDED_BY(mutex) = Backend::kAuto;
  absl::Duration forward_time ABSL_GUARDED_BY(mutex) = absl::ZeroDuration();
  absl::Duration slot_time ABSL_GUARDED_BY(mutex) = absl::ZeroDuration();
  int64_t num_forwards ABSL_GUARDED_BY(mutex) = 0;
};

// Thread-compatible, like every ModelRunner.
class FakeRunner : public ModelRunner {
 public:
  explicit FakeRunner(const ModelInfo& info = FakeModelInfo(),
                      std::shared_ptr<FakeControls> controls = std::make_shared<FakeControls>());

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  // Returns the graphs that a fused backend might hold.
  GraphUse graphs() const override {
    return info_->fused_supported ? GraphUse{3, 4096} : GraphUse();
  }

  // Returns INTERNAL for a plan that breaks the ancestor rule or has wrong position ids.
  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override;

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override;

 private:
  const std::shared_ptr<const ModelInfo> info_;
  const std::shared_ptr<FakeControls> controls_;
};

}  // namespace canopy::testing

#endif  // TESTS_TESTING_FAKE_RUNNER_H_
