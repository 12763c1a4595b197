#include "core/runtime/model_routes.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/checkpoint/testing/test_files.h"
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
    info.num_layers = num_layers_;
    info.layer_weights = 196'608;
    info.attention_size = 128;
    FakeRunner runner(info, controls_);
    return SetUpModelRoutes(runner, options_);
  }

  const TemporaryFolder folder_;
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  ModelRoutesOptions options_;
  double now_ms_ = 0;
  int64_t num_layers_ = 0;  // unknown
};

TEST_F(ModelRoutesTest, AModelWithoutASizeIsNotMeasuredButWarmedUp) {
  const auto routes = SetUpRoutes();
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->default_policy, Policy::kReference);
  EXPECT_EQ(routes->costs, nullptr);
  EXPECT_EQ(controls_->forwards(), 2 * 3);
}

TEST_F(ModelRoutesTest, AnOpenPolicyMeasuresWhatIsForecastToBeShort) {
  num_layers_ = 8;
  auto routes = SetUpRoutes();
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->default_policy, Policy::kMeasured);
  EXPECT_EQ(routes->costs->backends.size(), 3U);
  EXPECT_EQ(routes->policy_reason, "measuring is forecast to take 1.8 s, at most 2 s");
  // The result does not depend on how slow the clock says the machine is.
  options_.measure.now_ms = [this] { return now_ms_ += 1e6; };
  EXPECT_EQ(SetUpRoutes()->default_policy, Policy::kMeasured);
  num_layers_ = 80;
  routes = SetUpRoutes();
  EXPECT_EQ(routes->default_policy, Policy::kReference);
  EXPECT_EQ(routes->costs, nullptr);
  EXPECT_EQ(routes->policy_reason, "measuring is forecast to take 18 s, more than 2 s");
}

TEST_F(ModelRoutesTest, CostsFromAFileMakeAnOpenPolicyMeasured) {
  options_.costs_file = folder_.Join("costs.json");
  EXPECT_EQ(SetUpRoutes()->default_policy, Policy::kReference);
  options_.policy = Policy::kMeasured;
  EXPECT_EQ(SetUpRoutes()->policy_reason, "--policy names it");
  options_.policy.reset();
  const auto routes = SetUpRoutes();
  EXPECT_EQ(routes->default_policy, Policy::kMeasured);
  EXPECT_EQ(routes->policy_reason, "--route_costs has the costs of this model");
}

TEST_F(ModelRoutesTest, ANamedPolicyIsKept) {
  num_layers_ = 8;
  options_.policy = Policy::kReference;
  const auto routes = SetUpRoutes();
  EXPECT_EQ(routes->default_policy, Policy::kReference);
  EXPECT_EQ(routes->costs, nullptr);
  EXPECT_EQ(routes->policy_reason, "--policy names it");
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

TEST_F(ModelRoutesTest, TheFileAvoidsTheSecondMeasurement) {
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
  // The reference policy also has the costs then, for requests that ask for the measured one.
  options_.policy = Policy::kReference;
  EXPECT_NE(SetUpRoutes()->costs, nullptr);
  // The file does not contain this backend, so costs must be measured again.
  EXPECT_EQ(SetUpRoutes(/*fused_supported=*/true)->costs, nullptr);
  options_.policy = Policy::kMeasured;
  EXPECT_EQ(SetUpRoutes(/*fused_supported=*/true)->costs->backends.size(), 4U);
}

// A file that cannot be used costs a measurement, but does not stop the start.
TEST_F(ModelRoutesTest, CostsAreMeasuredIfTheFileCannotBeUsed) {
  options_.policy = Policy::kMeasured;
  const std::string pipe = folder_.Join("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string huge = folder_.Write("huge.json", "");
  std::filesystem::resize_file(huge, uint64_t{1} << 40);
  for (const std::string& file :
       {folder_.Join("no/such/costs.json"), folder_.Join("."), pipe, huge, std::string("/dev/zero"),
        std::string("/dev/null"), std::string("/proc/costs.json")}) {
    options_.costs_file = file;
    const auto routes = SetUpRoutes();
    ASSERT_TRUE(routes.ok()) << file << ": " << routes.status();
    ASSERT_NE(routes->costs, nullptr) << file;
    EXPECT_EQ(routes->costs->backends.size(), 3U);
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(std::filesystem::file_size(huge), uint64_t{1} << 40);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  // A server with the reference policy also starts.
  options_.policy = Policy::kReference;
  EXPECT_TRUE(SetUpRoutes().ok());
}

TEST_F(ModelRoutesTest, AFileOfSomethingElseStopsTheStart) {
  options_.costs_file = folder_.Write("foreign.json", "[]");
  EXPECT_TRUE(absl::IsInvalidArgument(SetUpRoutes().status()));
}

}  // namespace
}  // namespace canopy
