// A runner whose model is routed by given costs under the measured policy, and whose forwards wait
// at a gate.
#ifndef TESTS_TESTING_ROUTED_RUNNER_H_
#define TESTS_TESTING_ROUTED_RUNNER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/model_runner.h"
#include "core/tree/route_costs.h"
#include "tests/testing/gate.h"

namespace canopy::testing {

// As thread-safe as `runner`. Each forward waits at `gate`, which must outlive the runner.
class RoutedRunner final : public ModelRunner {
 public:
  RoutedRunner(std::unique_ptr<ModelRunner> runner, RouteCosts costs, Gate* gate)
      : runner_(std::move(runner)), gate_(*gate) {
    ModelInfo info = *runner_->info();
    info.default_policy = Policy::kMeasured;
    info.route_costs = std::make_shared<const RouteCosts>(std::move(costs));
    info_ = std::make_shared<const ModelInfo>(std::move(info));
  }

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    gate_.WaitUntilOpen();
    return runner_->Run(plan, outputs);
  }

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override {
    return runner_->Decide(input);
  }

 private:
  const std::unique_ptr<ModelRunner> runner_;
  Gate& gate_;
  std::shared_ptr<const ModelInfo> info_;
};

}  // namespace canopy::testing

#endif  // TESTS_TESTING_ROUTED_RUNNER_H_
