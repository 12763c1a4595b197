#include "core/runtime/measure_forecast.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/testing/fake_runner.h"

namespace canopy {
namespace {

// Returns a model with the layers of Qwen3. `columns` = query heads x head size = 2 x key heads x
// head size.
ModelInfo Model(int64_t layers, int64_t hidden, int64_t columns, int64_t intermediate) {
  ModelInfo info = testing::FakeModelInfo();
  info.num_layers = layers;
  info.hidden_size = hidden;
  info.attention_size = columns;
  info.layer_weights = 3 * hidden * columns + 3 * hidden * intermediate;
  return info;
}

const ModelInfo kDemo = Model(8, 128, 128, 384);          // 1.6 million weights in layers
const ModelInfo kSmall = Model(8, 384, 384, 1'024);       // 13 million
const ModelInfo kLarge = Model(28, 1'024, 2'048, 3'072);  // 440 million

TEST(MeasureForecastTest, TheDemoModelIsMeasuredAndLargeOnesAreNot) {
  EXPECT_LT(ForecastMeasureSeconds(kDemo), kMaxMeasureSeconds);
  EXPECT_GT(ForecastMeasureSeconds(kSmall), kMaxMeasureSeconds);
  EXPECT_GT(ForecastMeasureSeconds(kLarge), 50);
}

TEST(MeasureForecastTest, GrowsWithTheWeightsAndWithTheBackends) {
  ModelInfo twice = kLarge;
  twice.layer_weights *= 2;
  EXPECT_NEAR(ForecastMeasureSeconds(twice) / ForecastMeasureSeconds(kLarge), 2, 0.1);
  ModelInfo path_only = kSmall;
  path_only.tree_supported = false;
  EXPECT_LT(ForecastMeasureSeconds(path_only), ForecastMeasureSeconds(kSmall));
}

TEST(MeasureForecastTest, KnowsTypeAndDevice) {
  ModelInfo half = kDemo;
  half.dtype = "bfloat16";
  EXPECT_GT(ForecastMeasureSeconds(half), ForecastMeasureSeconds(kDemo));
  ModelInfo cuda = kLarge;
  cuda.device = "cuda:0";
  EXPECT_LT(ForecastMeasureSeconds(cuda), ForecastMeasureSeconds(kLarge));
}

TEST(MeasureForecastTest, AModelWithoutASizeIsNotMeasured) {
  EXPECT_TRUE(std::isinf(ForecastMeasureSeconds(testing::FakeModelInfo())));
}

}  // namespace
}  // namespace canopy
