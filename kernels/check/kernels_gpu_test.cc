// Runs the kernel checks on this machine's GPU. kernels_check runs more cases of the same checks.
#include "gtest/gtest.h"
#include "kernels/check/attention_check.h"
#include "kernels/check/layer_check.h"
#include "kernels/check/product_check.h"
#include "kernels/device.h"

namespace canopy::kernels::check {
namespace {

class KernelsGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const cudaError_t error = Init(&device_);
    if (error != cudaSuccess) {
      GTEST_SKIP() << "no usable GPU: error " << error;
    }
  }
  DeviceInfo device_;
};

TEST_F(KernelsGpuTest, LayerKernelsAreWithinOneRoundingOfTheirTwins) {
  EXPECT_EQ(CheckLayers(/*seed=*/1, /*rounds=*/20), 0);
}

TEST_F(KernelsGpuTest, ProductsAreWithinOneRoundingOfTheirTwins) {
  EXPECT_EQ(CheckProducts(/*seed=*/1, /*rounds=*/9, device_), 0);
}

TEST_F(KernelsGpuTest, TreeAttentionIsWithinTwiceThePlainErrorOnRandomForests) {
  AttentionCheckOptions options;
  options.forests = 100;
  EXPECT_EQ(CheckAttention(options, device_), 0);
}

}  // namespace
}  // namespace canopy::kernels::check
