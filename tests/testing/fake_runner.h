// A ModelRunner without a model: every result is a hash of the tokens that it depends on, read from
// the plan by the ancestor rule, so that a wrong plan or a mixed-up order gives wrong numbers.
//
// Faults are injected by token or by size, and a gate holds the device while a test looks.
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

// What a FakeRunner answers for a path: multiples of 1/8 in [-1, 1], exact in every VectorType.
// Each weight version has its own; the functions below give version 1's.
float FakeScore(absl::Span<const int32_t> path, int64_t label, int64_t version = 1);
std::vector<float> FakeVector(absl::Span<const int32_t> path, int64_t hidden_size,
                              int64_t version = 1);

// What it reads from the distribution behind `context`; log-probs and entropy are divided by the
// temperature.
struct FakeDistribution {
  float entropy = 0;
  float min_logit = 0;
  float max_logit = 0;
};
FakeDistribution FakeDistributionAfter(absl::Span<const int32_t> context, float temperature);
float FakeLogprob(absl::Span<const int32_t> context, int32_t token, float temperature);
// The `rank`-th most likely token and its log-prob.
std::pair<int32_t, float> FakeTop(absl::Span<const int32_t> context, int32_t rank,
                                  float temperature);
int32_t FakeRank(absl::Span<const int32_t> context, int32_t token);
float FakeValue(absl::Span<const int32_t> path);
// What a fake whose score_head is kDecision answers for candidate `index` of a question: the first
// element of its own vector, plus the second of every candidate's. Exact too.
float FakeDecision(const std::vector<std::vector<float>>& vectors, size_t index);

// A model of 8 hidden units, 1,000 tokens, paths up to 2,048 and one label.
ModelInfo FakeModelInfo();

// Knobs of a FakeRunner, shared with the test, which may turn them while it runs. Thread-safe.
struct FakeControls {
  Gate gate;       // each forward waits here before it starts
  Gate load_gate;  // each load of replacement weights waits here

  // A path with this token is not finite, and on a forest it spoils its whole row, as a masked
  // softmax does. -1 = none.
  void PoisonToken(int32_t token) ABSL_LOCKS_EXCLUDED(mutex);
  // Of a path with `token`, each output of `outputs` is not finite, and its hidden states are: what
  // an overflow in a head does. -1 = none.
  void PoisonOutputs(int32_t token, OutputSet outputs) ABSL_LOCKS_EXCLUDED(mutex);
  // Forwards of more slots find no device memory. 0 = no limit.
  void LimitSlots(int64_t slots) ABSL_LOCKS_EXCLUDED(mutex);
  // Of the forwards from now on, `count` find no device memory after `first` that do.
  void FailForwards(int64_t first, int64_t count) ABSL_LOCKS_EXCLUDED(mutex);
  // Every forward fails with `status` until it is OK again.
  void FailWith(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex);
  // Forwards of this backend fail as a backend does that cannot run. kAuto = none.
  void FailBackend(Backend backend) ABSL_LOCKS_EXCLUDED(mutex);
  // Each forward takes this long, and each slot of it.
  void Pace(absl::Duration forward_time, absl::Duration slot_time = absl::ZeroDuration())
      ABSL_LOCKS_EXCLUDED(mutex);
  // Forwards so far, those that failed included.
  int64_t forwards() const ABSL_LOCKS_EXCLUDED(mutex);

  mutable Mutex mutex;
  int32_t poison_token ABSL_GUARDED_BY(mutex) = -1;
  int32_t output_poison_token ABSL_GUARDED_BY(mutex) = -1;
  OutputSet poisoned_outputs ABSL_GUARDED_BY(mutex) = 0;
  int64_t max_slots ABSL_GUARDED_BY(mutex) = 0;
  int64_t first_without_memory ABSL_GUARDED_BY(mutex) = 0;  // of num_forwards
  int64_t end_without_memory ABSL_GUARDED_BY(mutex) = 0;
  absl::Status failure ABSL_GUARDED_BY(mutex);
  Backend failing_backend ABSL_GUARDED_BY(mutex) = Backend::kAuto;
  absl::Duration forward_time ABSL_GUARDED_BY(mutex) = absl::ZeroDuration();
  absl::Duration slot_time ABSL_GUARDED_BY(mutex) = absl::ZeroDuration();
  int64_t num_forwards ABSL_GUARDED_BY(mutex) = 0;
};

// Thread-compatible, as every ModelRunner.
class FakeRunner : public ModelRunner {
 public:
  explicit FakeRunner(const ModelInfo& info = FakeModelInfo(),
                      std::shared_ptr<FakeControls> controls = std::make_shared<FakeControls>());

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  // What a fused backend might hold.
  GraphUse graphs() const override {
    return info_->fused_supported ? GraphUse{3, 4096} : GraphUse();
  }

  // INTERNAL for a plan that breaks the ancestor rule or has wrong position ids.
  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override;

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override;

 private:
  const std::shared_ptr<const ModelInfo> info_;
  const std::shared_ptr<FakeControls> controls_;
};

}  // namespace canopy::testing

#endif  // TESTS_TESTING_FAKE_RUNNER_H_
