#include "core/model/testing/small_encoder.h"

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "core/checkpoint/synthetic.h"
#include "core/checkpoint/testing/small_config.h"
#include "gtest/gtest.h"

namespace canopy {

std::unique_ptr<TreeEncoder> MakeSmallEncoder(int64_t nan_token) {
  at::set_num_threads(1);
  const ModelConfig config = SmallConfig(kSmallVocab);
  const auto synthetic = MakeSyntheticWeights(config);
  EXPECT_TRUE(synthetic.ok()) << synthetic.status();
  auto values = std::make_shared<std::vector<std::vector<float>>>();
  std::vector<TensorView> views;
  for (TensorView view : synthetic->tensors()) {
    std::vector<float>& data = values->emplace_back(view.bytes.size() / sizeof(float));
    std::memcpy(data.data(), view.bytes.data(), view.bytes.size());
    for (float& value : data) {
      value *= view.shape.size() > 1 ? 20.0F : 1.0F;
    }
    if (view.name == "embed_tokens.weight" && nan_token >= 0) {
      data[static_cast<size_t>(nan_token * kSmallHidden)] = std::numeric_limits<float>::quiet_NaN();
    }
    view.bytes = {reinterpret_cast<const uint8_t*>(data.data()), view.bytes.size()};
    views.push_back(std::move(view));
  }
  const auto source = WeightSource::Create(std::move(views), values);
  EXPECT_TRUE(source.ok()) << source.status();
  const auto weights = MatchWeights(*source, config);
  EXPECT_TRUE(weights.ok()) << weights.status();
  auto encoder = TreeEncoder::Create(config, *weights, at::TensorOptions().dtype(at::kFloat));
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

TreePlan PlanSmall(const std::shared_ptr<const PathBatch>& batch, Backend backend,
                   Packing packing) {
  RouteOptions options;
  options.backend = backend;
  options.packing = packing;
  options.hidden_size = kSmallHidden;
  const auto plan = RequestPlan::Create(batch, options, 1 << 20);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

at::Tensor EncodeInRequestOrder(TreeEncoder& encoder, const TreePlan& plan) {
  const auto encoded = encoder.Encode(plan, plan.endpoints);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  at::Tensor ordered = encoded->clone();
  for (size_t i = 0; i < plan.paths.size(); ++i) {
    ordered[plan.paths[i]].copy_((*encoded)[static_cast<int64_t>(i)]);
  }
  return ordered;
}

double LargestRelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  const auto norm = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, at::IntArrayRef{1});
  };
  return norm(actual.sub(expected)).div(norm(expected)).max().item<double>();
}

}  // namespace canopy
