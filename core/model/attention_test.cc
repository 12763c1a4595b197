// Compares every backend, bound by TreeContext, with attention computed in double precision from
// its definition.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/CPUGeneratorImpl.h"
#include "ATen/Parallel.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_cat.h"
#include "core/model/attention_path.h"
#include "core/model/attention_segmented.h"
#include "core/model/testing/random_batch.h"
#include "core/model/tree_context.h"
#include "core/ops/attention_ops.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

struct Heads {
  int64_t query;
  int64_t kv;
  int64_t dim;
};

constexpr Heads kHeads[] = {{3, 3, 16}, {4, 2, 24}, {4, 1, 40}};

struct Inputs {
  at::Tensor q, k, v;  // [tokens, heads, dim]
};

Inputs RandomInputs(int64_t tokens, const Heads& heads, uint64_t seed) {
  // The tensors are small, so more threads would only wait for each other.
  at::set_num_threads(1);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return {at::randn({tokens, heads.query, heads.dim}, generator).mul_(2),
          at::randn({tokens, heads.kv, heads.dim}, generator),
          at::randn({tokens, heads.kv, heads.dim}, generator)};
}

TreePlan PlanOf(uint32_t seed, Backend backend, Packing packing) {
  RouteOptions options;
  options.backend = backend;
  options.packing = packing;
  options.hidden_size = 128;
  const auto plan = RequestPlan::Create(RandomBatch(seed, 3, 41), options, 1 << 20);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->BuildPart(0);
}

// Returns true if `query` reads `key`; both are columns of `row`.
bool Reads(const TreePlan& plan, int64_t row, int64_t query, int64_t key) {
  if (key > query) {
    return false;
  }
  return plan.grid.exit.empty() ||
         query <= plan.grid.exit[static_cast<size_t>(row * plan.grid.columns + key)];
}

// Returns the slots on the path to an endpoint. The other slots are padding, whose output is
// ignored.
std::vector<bool> RealSlots(const TreePlan& plan) {
  std::vector<bool> real(static_cast<size_t>(plan.computed_tokens()), false);
  for (const int32_t endpoint : plan.endpoints) {
    const int64_t row = endpoint / plan.grid.columns;
    for (int64_t key = 0; key < plan.grid.columns; ++key) {
      if (Reads(plan, row, endpoint % plan.grid.columns, key)) {
        real[static_cast<size_t>(row * plan.grid.columns + key)] = true;
      }
    }
  }
  return real;
}

// Returns softmax(q k / sqrt(dim)) v of one query slot and head, over the last `window` keys that
// the query reads.
std::vector<double> Expected(const TreePlan& plan, const Inputs& inputs, int64_t slot, int64_t head,
                             int64_t window = 1 << 20) {
  const auto q = inputs.q.accessor<float, 3>();
  const auto k = inputs.k.accessor<float, 3>();
  const auto v = inputs.v.accessor<float, 3>();
  const int64_t kv_head = head / (inputs.q.size(1) / inputs.k.size(1));
  const int64_t dim = inputs.q.size(2);
  const int64_t row = slot / plan.grid.columns;
  std::vector<double> output(static_cast<size_t>(dim), 0);
  double total = 0;
  for (int64_t key = std::max(row * plan.grid.columns, slot - window + 1); key <= slot; ++key) {
    if (!Reads(plan, row, slot % plan.grid.columns, key % plan.grid.columns)) {
      continue;
    }
    double score = 0;
    for (int64_t i = 0; i < dim; ++i) {
      score += static_cast<double>(q[slot][head][i]) * k[key][kv_head][i];
    }
    const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
    total += weight;
    for (int64_t i = 0; i < dim; ++i) {
      output[static_cast<size_t>(i)] += weight * v[key][kv_head][i];
    }
  }
  for (double& value : output) {
    value /= total;
  }
  return output;
}

double LargestError(const TreePlan& plan, const Inputs& inputs, const at::Tensor& output) {
  const auto actual = output.accessor<float, 3>();
  const std::vector<bool> real = RealSlots(plan);
  double largest = 0;
  for (int64_t slot = 0; slot < plan.computed_tokens(); ++slot) {
    for (int64_t head = 0; real[static_cast<size_t>(slot)] && head < output.size(1); ++head) {
      const std::vector<double> expected = Expected(plan, inputs, slot, head);
      for (int64_t i = 0; i < output.size(2); ++i) {
        const double error = std::abs(actual[slot][head][i] - expected[static_cast<size_t>(i)]);
        largest = std::isfinite(error) ? std::max(largest, error) : INFINITY;
      }
    }
  }
  return largest;
}

TreeContext ContextOf(const TreePlan& plan, const Heads& heads) {
  const RotaryFrequencies frequencies = {at::arange(1, heads.dim / 2 + 1, at::kFloat).reciprocal()};
  auto context = TreeContext::Create(plan, plan.endpoints, {frequencies, at::kFloat, 0, {}});
  EXPECT_TRUE(context.ok()) << context.status();
  return *std::move(context);
}

using Route = std::pair<Backend, Packing>;

class AttentionTest : public ::testing::TestWithParam<Route> {};

TEST_P(AttentionTest, MatchesDoublePrecisionOnRandomForests) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    const TreePlan plan = PlanOf(seed, GetParam().first, GetParam().second);
    const Heads& heads = kHeads[seed % 3];
    const Inputs inputs = RandomInputs(plan.computed_tokens(), heads, seed);
    const at::Tensor output =
        ContextOf(plan, heads).attention().Forward(inputs.q, inputs.k, inputs.v);
    ASSERT_EQ(output.sizes(), inputs.q.sizes());
    EXPECT_LE(LargestError(plan, inputs, output), 1e-5) << "seed " << seed;
    EXPECT_TRUE(output.isfinite().all().item<bool>()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest,
                         ::testing::Values(Route(Backend::kPath, Packing::kAuto),
                                           Route(Backend::kDense, Packing::kAuto),
                                           Route(Backend::kDense, Packing::kPadded),
                                           Route(Backend::kSegmented, Packing::kAuto),
                                           Route(Backend::kSegmented, Packing::kPadded)));

TEST(SegmentedAttentionTest, ChunksOfChainsGiveTheSameUpToRounding) {
  const TreePlan plan = PlanOf(5, Backend::kSegmented, Packing::kAuto);
  ASSERT_EQ(plan.backend, Backend::kSegmented);
  const Inputs inputs = RandomInputs(plan.computed_tokens(), kHeads[1], 5);
  std::vector<DeviceSegmentGroup> groups;
  int32_t most_chains = 0;
  for (const SegmentGroup& group : plan.segments->groups) {
    const at::Tensor queries =
        at::tensor(group.query_index, at::kInt).view({group.rows, group.query_length});
    const at::Tensor ancestors =
        at::tensor(group.ancestor_index, at::kInt).view({group.rows, group.start_depth});
    groups.push_back({queries, at::cat({ancestors, queries}, 1)});
    most_chains = std::max(most_chains, group.rows);
  }
  ASSERT_GT(most_chains, 3);
  const at::Tensor restore = at::tensor(plan.segments->restore_index, at::kInt);
  const at::Tensor whole =
      SegmentedAttention(groups, restore).Forward(inputs.q, inputs.k, inputs.v);
  for (const int64_t max_gathered_bytes : {int64_t{1}, int64_t{40'000}}) {
    const SegmentedAttention chunked(groups, restore, /*dropout=*/0, max_gathered_bytes);
    const at::Tensor output = chunked.Forward(inputs.q, inputs.k, inputs.v);
    EXPECT_LE(output.sub(whole).abs().max().item<double>(), 1e-6) << max_gathered_bytes;
  }
}

// The tests use windows that reach back over zero, one and several blocks of queries.
TEST(SlidingAttentionTest, EachQueryReadsTheLastKeysUpToItsOwn) {
  for (const int64_t tokens : {1, 5, 1100}) {
    const Inputs inputs = RandomInputs(2 * tokens, kHeads[1], 11);
    TreePlan plan;
    plan.grid.rows = 2;
    plan.grid.columns = static_cast<int32_t>(tokens);
    for (const int64_t window : {1, 2, 113, 700, 1099, 1100}) {
      const at::Tensor output =
          PathAttention(2, tokens, window).Forward(inputs.q, inputs.k, inputs.v);
      for (const int64_t token : {int64_t{0}, tokens / 2, tokens - 1}) {
        for (const int64_t head : {0, 3}) {
          const int64_t slot = tokens + token;  // a slot of the second row
          const std::vector<double> expected = Expected(plan, inputs, slot, head, window);
          for (int64_t i = 0; i < kHeads[1].dim; ++i) {
            EXPECT_NEAR(output[slot][head][i].item<double>(), expected[static_cast<size_t>(i)],
                        1e-5)
                << tokens << " tokens, window " << window << ", token " << token;
          }
        }
      }
    }
  }
}

// The chain is longer than one block of the lower-right mask.
TEST(CausalAttentionTest, LongChainsUnderAncestorsReadFromTheLowerRightCorner) {
  const int64_t ancestors = 37;
  const int64_t queries = 1100;
  const Inputs inputs = RandomInputs(ancestors + queries, kHeads[1], 9);
  const at::Tensor whole =
      CausalAttention(inputs.q.unsqueeze(0), inputs.k.unsqueeze(0), inputs.v.unsqueeze(0));
  const at::Tensor chain = CausalAttention(inputs.q.narrow(0, ancestors, queries).unsqueeze(0),
                                           inputs.k.unsqueeze(0), inputs.v.unsqueeze(0));
  EXPECT_LE(chain.sub(whole.narrow(1, ancestors, queries)).abs().max().item<double>(), 1e-5);
}

TEST(TreeContextTest, AnglesFollowThePositionNotTheSlot) {
  const TreePlan plan = PlanOf(2, Backend::kDense, Packing::kAuto);
  const TreeContext context = ContextOf(plan, {1, 1, 8});
  for (size_t slot = 0; slot < plan.grid.position_ids.size(); ++slot) {
    const auto row = static_cast<int64_t>(slot);
    // The first frequency is 1 and the third is 1/3.
    const double position = plan.grid.position_ids[slot];
    EXPECT_NEAR(context.rotary().cos[row][0][0].item<double>(), std::cos(position), 1e-5);
    EXPECT_NEAR(context.rotary().sin[row][0][2].item<double>(), std::sin(position / 3), 1e-5);
  }
}

TEST(TreeContextTest, RefusesSlotsOutsideTheGridAndBackendsThatAreNotHere) {
  TreePlan plan = PlanOf(1, Backend::kDense, Packing::kAuto);
  const RotaryFrequencies frequencies = {at::arange(1, 5, at::kFloat)};
  const auto size = static_cast<int32_t>(plan.computed_tokens());
  for (const int32_t slot : {-1, size}) {
    EXPECT_EQ(TreeContext::Create(plan, {slot}, {frequencies, at::kFloat, 0, {}}).status(),
              absl::InvalidArgumentError(
                  absl::StrCat("output slot ", slot, " is outside the plan's ", size, " slots")));
  }
  EXPECT_EQ(TreeContext::Create(plan, {0}, {frequencies, at::kFloat, /*sliding_window=*/8, {}})
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
  plan.backend = Backend::kFused;
  EXPECT_EQ(TreeContext::Create(plan, {0}, {frequencies, at::kFloat, 0, {}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace canopy
