#include "core/engine/model_routes.h"

#include <memory>
#include <string>

#include "core/model/test_files.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

using testing::FakeControls;
using testing::FakeModelInfo;
using testing::FakeRunner;

class ModelRoutesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.key = {"a device", "float32", "0123456789abcdef", "0.1"};
    options_.measure.now_ms = [this] { return now_ms_ += 1; };
    options_.measure.budget_ms = 100;
  }

  absl::StatusOr<ModelRoutes> SetUpRoutes(bool fused_supported = false) {
    ModelInfo info = FakeModelInfo();
    info.fused_supported = fused_supported;
    FakeRunner runner(info, controls_);
    return SetUpModelRoutes(runner, options_);
  }

  const TemporaryFolder folder_;
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  ModelRoutesOptions options_;
  double now_ms_ = 0;
};

TEST_F(ModelRoutesTest, ReferenceMeasuresNothingButWarmsUp) {
  const auto routes = SetUpRoutes();
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->default_policy, Policy::kReference);
  EXPECT_EQ(routes->costs, nullptr);
  EXPECT_EQ(controls_->forwards(), 2 * 3);
}

TEST_F(ModelRoutesTest, MeasuresWhereFusedRunsOrWhenAsked) {
  auto routes = SetUpRoutes(/*fused_supported=*/true);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->default_policy, Policy::kMeasured);
  EXPECT_EQ(routes->costs->backends.size(), 4U);
  options_.policy = Policy::kMeasured;
  EXPECT_EQ(SetUpRoutes()->costs->backends.size(), 3U);
  options_.policy = Policy::kReference;
  EXPECT_EQ(SetUpRoutes(/*fused_supported=*/true)->costs, nullptr);
}

TEST_F(ModelRoutesTest, TheFileSparesTheSecondMeasurement) {
  options_.policy = Policy::kMeasured;
  options_.costs_file = folder_.Join("costs.json");
  const auto first = SetUpRoutes();
  ASSERT_TRUE(first.ok()) << first.status();
  const int64_t measuring = controls_->forwards();
  const auto second = SetUpRoutes();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(controls_->forwards() - measuring, 2 * 3);
  EXPECT_EQ(second->costs->backends.at(Backend::kDense).token_ms,
            first->costs->backends.at(Backend::kDense).token_ms);
  // Then the reference policy has them too, for requests that ask for the other.
  options_.policy = Policy::kReference;
  EXPECT_NE(SetUpRoutes()->costs, nullptr);
  // A backend that the file does not know: measured anew.
  EXPECT_EQ(SetUpRoutes(/*fused_supported=*/true)->costs, nullptr);
  options_.policy = Policy::kMeasured;
  EXPECT_EQ(SetUpRoutes(/*fused_supported=*/true)->costs->backends.size(), 4U);
}

TEST_F(ModelRoutesTest, AFileOfSomethingElseStopsTheStart) {
  options_.costs_file = folder_.Write("foreign.json", "[]");
  EXPECT_TRUE(absl::IsInvalidArgument(SetUpRoutes().status()));
}

}  // namespace
}  // namespace canopy
