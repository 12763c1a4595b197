// Compares every backend with what transformers computed from the same checkpoint. Run by
// parity_test.sh, which makes the checkpoints below the test's temporary folder first.
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/parity_checkpoint.h"

namespace canopy {
namespace {

class ParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityTest, Float32MatchesTransformersForEveryCandidateAndBackend) {
  const ParityCheckpoint checkpoint(GetParam(), "float32");
  std::set<std::pair<Backend, Layout>> seen;
  for (const ParityRoute& route : ParityRoutes()) {
    for (const auto& [name, item] : checkpoint.cases()) {
      const Route chosen = checkpoint.Plan(item, route).route();
      seen.insert({chosen.backend, chosen.layout});
    }
    ExpectFloat32Parity(checkpoint, route);
  }
  for (const Backend backend : {Backend::kDense, Backend::kSegmented}) {
    for (const Layout layout : {Layout::kFlat, Layout::kPadded}) {
      EXPECT_EQ(seen.count({backend, layout}), 1U) << BackendName(backend) << LayoutName(layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ParityTest,
                         ::testing::Values("base_f32", "causal_sharded_f32", "reward_f32",
                                           "causal_tied_bf16", "causal_reward_f32",
                                           "reward_bias_bf16", "base_bf16"),
                         [](const auto& info) { return std::string(info.param); });

class BFloat16ParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BFloat16ParityTest, ErrorIsNoLargerThanThatOfTransformers) {
  const ParityCheckpoint checkpoint(GetParam(), "bfloat16");
  for (const ParityRoute& route : ParityRoutes()) {
    ExpectHalfParity(checkpoint, route, &ReferenceCase::vectors_bf16);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, BFloat16ParityTest,
                         ::testing::Values("causal_tied_bf16", "reward_bias_bf16", "base_bf16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace canopy
