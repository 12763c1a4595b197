// Compares plans and routes of 400 random batches with those of the original implementation. Every
// field agrees.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tree/segments.h"
#include "core/tree/tree_plan.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using Json = nlohmann::json;

constexpr int kNumCases = 400;
constexpr int64_t kNoPartLimit = int64_t{1} << 30;

std::shared_ptr<const PathBatch> BatchOf(const Json& questions) {
  auto batch = std::make_shared<PathBatch>();
  for (const Json& paths : questions) {
    batch->AddQuestion({}, paths.get<std::vector<std::vector<int32_t>>>());
  }
  return batch;
}

RouteOptions OptionsOf(const Json& route_case) {
  RouteOptions options;
  const std::string backend = route_case.at("attention_impl");
  options.backend = backend == "auto"    ? Backend::kAuto
                    : backend == "dense" ? Backend::kDense
                                         : Backend::kSegmented;
  options.packing = route_case.at("packing") == "padded" ? Packing::kPadded : Packing::kAuto;
  options.max_mask_bytes = route_case.at("max_mask_bytes");
  options.hidden_size = route_case.at("hidden_size");
  return options;
}

// Returns this planner's answer for every expected field.
Json Answer(const RequestPlan& plan, const Json& expected) {
  const PlanCounts& counts = plan.counts();
  Json answer = {{"backend", BackendName(plan.route().backend)},
                 {"reason", ReasonName(plan.route().reason)},
                 {"path_tokens", counts.path_tokens}};
  if (plan.trie() != nullptr) {
    answer["layout"] = LayoutName(plan.route().layout);
    answer["unique_tokens"] = counts.unique_tokens;
    answer["mask_bytes"] = counts.mask_bytes;
  }
  if (counts.segment_groups > 0) {
    answer["segment_groups"] = counts.segment_groups;
    answer["packed_queries"] = counts.packed_queries;
    answer["attention_pairs"] = counts.attention_pairs;
    answer["groups"] = Json::array();
    for (const SegmentGroupShape& group :
         SegmentGroupShapes(*plan.trie(), 0, plan.trie()->num_questions())) {
      answer["groups"].push_back({group.start_depth, group.rows, group.query_length});
    }
    if (expected.contains("segment_suitable")) {
      answer["segment_suitable"] = counts.segment_suitable;
    }
  }
  return answer;
}

TEST(RouteCases, EveryFieldAgrees) {
  std::ifstream file("core/tree/route_cases.jsonl");
  ASSERT_TRUE(file.is_open());
  int num_cases = 0;
  for (std::string line; std::getline(file, line); ++num_cases) {
    SCOPED_TRACE(num_cases);
    const Json route_case = Json::parse(line);
    const auto plan = RequestPlan::Create(BatchOf(route_case.at("questions")),
                                          OptionsOf(route_case), kNoPartLimit);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Json& expected = route_case.at("expect");
    EXPECT_EQ(Answer(*plan, expected), expected);
  }
  EXPECT_EQ(num_cases, kNumCases);
}

}  // namespace
}  // namespace canopy
