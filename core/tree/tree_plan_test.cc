#include "core/tree/tree_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "core/tree/testing/naive_tree.h"
#include "core/tree/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Path;

constexpr int kNumRandomBatches = 3000;
constexpr int64_t kNoLimit = int64_t{1} << 40;

RouteOptions Options(Backend backend) {
  RouteOptions options;
  options.backend = backend;
  options.hidden_size = 1024;
  return options;
}

absl::StatusOr<RequestPlan> Plan(const PathBatch& batch, const RouteOptions& options,
                                 int64_t max_batch_tokens = kNoLimit,
                                 TrieUse trie_use = TrieUse::kWhereNeeded) {
  return RequestPlan::Create(std::make_shared<const PathBatch>(batch), options, max_batch_tokens,
                             trie_use);
}

// Returns the slots that a slot reads on the path backend: its row up to and including itself.
std::vector<int32_t> CausalSlots(const TokenGrid& grid, int32_t slot) {
  std::vector<int32_t> slots;
  for (int32_t key = slot / grid.columns * grid.columns; key <= slot; ++key) {
    slots.push_back(key);
  }
  return slots;
}

Path TokensAt(const TokenGrid& grid, const std::vector<int32_t>& slots) {
  Path tokens;
  for (const int32_t slot : slots) {
    tokens.push_back(grid.token_ids[slot]);
  }
  return tokens;
}

// Checks that every endpoint reads exactly its own path, at positions 0, 1, 2, ...
void ExpectEndpointsReadTheirPaths(const PathBatch& batch, const TreePlan& part) {
  const std::vector<int32_t> questions = testing::PathQuestions(batch);
  ASSERT_EQ(part.endpoints.size(), part.paths.size());
  for (size_t i = 0; i < part.paths.size(); ++i) {
    const std::vector<int32_t> slots = part.backend == Backend::kPath
                                           ? CausalSlots(part.grid, part.endpoints[i])
                                           : testing::VisibleSlots(part.grid, part.endpoints[i]);
    EXPECT_EQ(TokensAt(part.grid, slots),
              testing::FullPath(batch, questions[part.paths[i]], part.paths[i]));
    for (size_t k = 0; k < slots.size(); ++k) {
      EXPECT_EQ(part.grid.position_ids[slots[k]], static_cast<int32_t>(k));
    }
  }
}

// Returns the part's paths grouped by question, in the order of the questions.
std::vector<std::vector<Path>> PathsByQuestion(const PathBatch& batch, const TreePlan& part) {
  std::vector<std::vector<Path>> by_question(batch.num_questions());
  const std::vector<int32_t> questions = testing::PathQuestions(batch);
  for (const int32_t path : part.paths) {
    by_question[questions[path]].push_back(testing::FullPath(batch, questions[path], path));
  }
  by_question.erase(std::remove_if(by_question.begin(), by_question.end(),
                                   [](const auto& paths) { return paths.empty(); }),
                    by_question.end());
  return by_question;
}

// Checks that the grid of a part is no larger than its paths need.
void ExpectGridIsTight(const PathBatch& batch, Layout layout, const TreePlan& part) {
  const auto by_question = PathsByQuestion(batch, part);
  size_t num_nodes = 0;
  size_t largest_trie = 0;
  size_t longest_path = 0;
  for (const std::vector<Path>& paths : by_question) {
    const size_t nodes = testing::NaiveTrie(paths).size();
    num_nodes += nodes;
    largest_trie = std::max(largest_trie, nodes);
    for (const Path& path : paths) {
      longest_path = std::max(longest_path, path.size());
    }
  }
  const size_t expected = part.backend == Backend::kPath ? part.paths.size() * longest_path
                          : layout == Layout::kFlat      ? num_nodes
                                                         : by_question.size() * largest_trie;
  EXPECT_EQ(part.computed_tokens(), static_cast<int64_t>(expected));
  EXPECT_EQ(part.grid.token_ids.size(), expected);
  EXPECT_EQ(part.grid.position_ids.size(), expected);
  EXPECT_EQ(part.grid.exit.size(), part.backend == Backend::kPath ? 0 : expected);
}

// Returns the number of slots of a question in a forward of its own.
int64_t QuestionSlots(const PathBatch& batch, Backend backend, int32_t question) {
  const std::vector<Path> paths = testing::QuestionPaths(batch, question);
  if (backend != Backend::kPath) {
    return static_cast<int64_t>(testing::NaiveTrie(paths).size());
  }
  size_t longest = 0;
  for (const Path& path : paths) {
    longest = std::max(longest, path.size());
  }
  return static_cast<int64_t>(paths.size() * longest);
}

// Checks that questions are in order, and that each is in one part or, if it does not fit alone, in
// parts of its own.
void ExpectWholeQuestionsFirst(const PathBatch& batch, const RequestPlan& plan, int64_t budget,
                               const std::vector<TreePlan>& parts) {
  const std::vector<int32_t> path_questions = testing::PathQuestions(batch);
  std::vector<int> num_parts_of_question(batch.num_questions());
  int32_t last_question = 0;
  for (const TreePlan& part : parts) {
    std::set<int32_t> questions;
    for (const int32_t path : part.paths) {
      questions.insert(path_questions[path]);
    }
    EXPECT_GE(*questions.begin(), last_question);
    last_question = *questions.rbegin();
    for (const int32_t question : questions) {
      ++num_parts_of_question[question];
      if (QuestionSlots(batch, plan.route().backend, question) > budget) {
        EXPECT_EQ(questions.size(), 1U);
      }
    }
  }
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const bool fits = QuestionSlots(batch, plan.route().backend, question) <= budget;
    EXPECT_EQ(num_parts_of_question[question] == 1, fits) << "question " << question;
  }
}

void ExpectPlanAnswersEveryPath(const PathBatch& batch, const RequestPlan& plan, int64_t budget) {
  std::vector<int32_t> answered;
  std::vector<TreePlan> parts;
  for (int32_t i = 0; i < plan.num_parts(); ++i) {
    SCOPED_TRACE(::testing::Message() << "part " << i);
    const TreePlan& part = parts.emplace_back(plan.BuildPart(i));
    EXPECT_EQ(part.backend, plan.route().backend);
    EXPECT_LE(part.computed_tokens(), budget);
    EXPECT_FALSE(part.paths.empty());
    EXPECT_EQ(part.segments.has_value(), part.backend == Backend::kSegmented);
    ExpectEndpointsReadTheirPaths(batch, part);
    ExpectGridIsTight(batch, plan.route().layout, part);
    answered.insert(answered.end(), part.paths.begin(), part.paths.end());
  }
  std::sort(answered.begin(), answered.end());
  std::vector<int32_t> all(batch.num_paths());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(answered, all);
  ExpectWholeQuestionsFirst(batch, plan, budget, parts);
}

int64_t LongestPath(const PathBatch& batch) {
  int64_t longest = 0;
  const std::vector<int32_t> questions = testing::PathQuestions(batch);
  for (int32_t path = 0; path < batch.num_paths(); ++path) {
    longest = std::max(longest, batch.PathLength(questions[path], path));
  }
  return longest;
}

TEST(RequestPlan, PartsOfRandomBatchesAnswerEveryPath) {
  constexpr Backend kBackends[] = {Backend::kDense, Backend::kSegmented, Backend::kPath};
  for (int i = 0; i < kNumRandomBatches && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    RouteOptions options = Options(kBackends[i % 3]);
    options.packing = random() % 2 == 0 ? Packing::kAuto : Packing::kPadded;
    const int64_t longest = LongestPath(batch);
    for (const int64_t budget :
         {longest, longest + 1, longest + static_cast<int64_t>(random() % 100), kNoLimit}) {
      SCOPED_TRACE(::testing::Message() << "budget " << budget);
      const auto plan = Plan(batch, options, budget);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ExpectPlanAnswersEveryPath(batch, *plan, budget);
    }
  }
}

TEST(RequestPlan, PartsOfNamedBatchesAnswerEveryPath) {
  for (const testing::NamedBatch& named : testing::NamedBatches()) {
    for (const Backend backend : {Backend::kDense, Backend::kSegmented, Backend::kPath}) {
      for (const int64_t budget : {LongestPath(named.batch), kNoLimit}) {
        SCOPED_TRACE(::testing::Message()
                     << named.name << ", " << BackendName(backend) << ", budget " << budget);
        const auto plan = Plan(named.batch, Options(backend), budget);
        ASSERT_TRUE(plan.ok()) << plan.status();
        ExpectPlanAnswersEveryPath(named.batch, *plan, budget);
      }
    }
  }
}

TEST(RequestPlan, FusedPartsAnswerEveryPathFromFlatForests) {
  for (int i = 0; i < kNumRandomBatches / 3 && !HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "seed " << testing::Seed(i));
    std::mt19937_64 random(testing::Seed(i));
    const PathBatch batch = testing::RandomBatch(random);
    RouteOptions options = Options(Backend::kFused);
    options.fused_supported = true;
    options.share_questions = random() % 2 == 0;
    options.packing = random() % 2 == 0 ? Packing::kAuto : Packing::kPadded;
    for (const int64_t budget :
         {LongestPath(batch), LongestPath(batch) + static_cast<int64_t>(random() % 100),
          kNoLimit}) {
      SCOPED_TRACE(::testing::Message() << "budget " << budget);
      const auto plan = Plan(batch, options, budget);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->route().layout, Layout::kFlat);
      EXPECT_EQ(plan->counts().mask_bytes, 0);
      EXPECT_EQ(plan->counts().forest_tokens, plan->counts().unique_tokens);
      int64_t computed = 0;
      size_t answered = 0;
      for (int32_t index = 0; index < plan->num_parts(); ++index) {
        const TreePlan part = plan->BuildPart(index);
        EXPECT_EQ(part.grid.rows, 1);
        EXPECT_LE(part.computed_tokens(), budget);
        ExpectEndpointsReadTheirPaths(batch, part);
        computed += part.computed_tokens();
        answered += part.paths.size();
      }
      EXPECT_EQ(answered, static_cast<size_t>(batch.num_paths()));
      if (plan->num_parts() == 1 && !options.share_questions) {
        EXPECT_EQ(computed, plan->counts().unique_tokens);
      }
    }
  }
}

TEST(RequestPlan, OnePartWhenEverythingFits) {
  PathBatch batch;
  batch.AddQuestion({1, 2, 3}, {{4}, {5}});
  batch.AddQuestion({6, 7, 8}, {{9}, {10}});
  const auto plan = Plan(batch, Options(Backend::kDense), 10);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->num_parts(), 1);
  EXPECT_THAT(plan->BuildPart(0).paths, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Plan(batch, Options(Backend::kDense), 9)->num_parts(), 2);
}

TEST(RequestPlan, QuestionsAfterOneThatWasCutGoTogetherAgain) {
  PathBatch batch;
  batch.AddQuestion({}, {{9, 9}});
  batch.AddQuestion({}, {{1, 2, 3}, {2, 2, 3}});
  batch.AddQuestion({}, {{1, 2}});
  batch.AddQuestion({}, {{1, 2}});
  for (const Backend backend : {Backend::kPath, Backend::kDense}) {
    const auto plan = Plan(batch, Options(backend), 5);
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->num_parts(), 4);
    EXPECT_THAT(plan->BuildPart(3).paths, ElementsAre(3, 4));
  }
}

TEST(RequestPlan, PathPartsHoldPathsOfLikeLength) {
  PathBatch batch;
  batch.AddQuestion({}, {{1}, {1, 2, 3, 4, 5, 6}, {2}, {2, 2, 3, 4, 5, 6}, {3}});
  const auto plan = Plan(batch, Options(Backend::kPath), 12);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->num_parts(), 2);
  EXPECT_THAT(plan->BuildPart(0).paths, ElementsAre(1, 3));
  EXPECT_EQ(plan->BuildPart(0).computed_tokens(), 12);
  EXPECT_THAT(plan->BuildPart(1).paths, ElementsAre(0, 2, 4));
  EXPECT_EQ(plan->BuildPart(1).computed_tokens(), 3);
}

TEST(RequestPlan, CountsAndRouteAreTheWholesWhateverTheParts) {
  PathBatch batch;
  for (int32_t question = 0; question < 6; ++question) {
    batch.AddQuestion(Path(100, question), {{1}, {2}, {3}});
  }
  const auto whole = Plan(batch, Options(Backend::kAuto), kNoLimit);
  const auto cut = Plan(batch, Options(Backend::kAuto), 101);
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(whole->num_parts(), 1);
  EXPECT_EQ(cut->num_parts(), 18);
  for (const RequestPlan* plan : {&*whole, &*cut}) {
    EXPECT_EQ(plan->route().backend, Backend::kSegmented);
    EXPECT_EQ(plan->route().layout, Layout::kPadded);
    EXPECT_EQ(plan->counts().path_tokens, 18 * 101);
    EXPECT_EQ(plan->counts().input_tokens, 18 * 101);
    EXPECT_EQ(plan->counts().unique_tokens, 6 * 103);
    EXPECT_EQ(plan->counts().forest_tokens, 6 * 103);
    EXPECT_EQ(plan->counts().mask_bytes, 6 * 103 * 103 * 4);
    EXPECT_EQ(plan->counts().segment_groups, 2);
  }
}

TEST(RequestPlan, SegmentedPartsKeepTheirIndexArraysSmall) {
  // The trie has only 16 Ki tokens, but 8 Ki chains with 8 Ki ancestors each.
  constexpr int32_t kSize = 8192;
  std::vector<Path> suffixes;
  suffixes.reserve(kSize);
  for (int32_t i = 0; i < kSize; ++i) {
    suffixes.push_back({i});
  }
  PathBatch batch;
  batch.AddQuestion(Path(kSize, -1), suffixes);
  const auto plan = Plan(batch, Options(Backend::kSegmented), kNoLimit);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->route().backend, Backend::kSegmented);
  EXPECT_EQ(plan->num_parts(), 3);
  const TreePlan part = plan->BuildPart(0);
  EXPECT_LE(part.segments->groups.back().ancestor_index.size(), size_t{1} << 25);
}

TEST(RequestPlan, SmallBatchBuildsNoTrieUnlessAsked) {
  PathBatch batch;
  batch.AddQuestion({1, 2, 3}, {{4}, {5}});
  const auto plain = Plan(batch, Options(Backend::kAuto));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->trie(), nullptr);
  EXPECT_EQ(plain->route().backend, Backend::kPath);
  EXPECT_EQ(plain->route().reason, Reason::kSmallBatch);
  EXPECT_EQ(plain->route().layout, Layout::kNone);
  EXPECT_EQ(plain->counts().path_tokens, 8);
  EXPECT_EQ(plain->counts().unique_tokens, 0);

  const auto explained = Plan(batch, Options(Backend::kAuto), kNoLimit, TrieUse::kAlways);
  ASSERT_TRUE(explained.ok());
  ASSERT_NE(explained->trie(), nullptr);
  EXPECT_EQ(explained->route().backend, Backend::kPath);
  EXPECT_EQ(explained->route().reason, Reason::kSmallBatch);
  EXPECT_EQ(explained->route().layout, Layout::kPadded);
  EXPECT_EQ(explained->counts().unique_tokens, 5);
  EXPECT_EQ(explained->counts().segment_groups, 0);
  EXPECT_EQ(explained->BuildPart(0).computed_tokens(), 8);
}

TEST(RequestPlan, FallbackToPathKeepsThePlansLayoutAndCounts) {
  PathBatch batch;
  batch.AddQuestion({1, 2, 3}, {{4}, {5}});
  RouteOptions options = Options(Backend::kDense);
  options.max_mask_bytes = 0;
  const auto plan = Plan(batch, options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->route().backend, Backend::kPath);
  EXPECT_EQ(plan->route().reason, Reason::kMaskBudget);
  EXPECT_EQ(plan->route().layout, Layout::kPadded);
  EXPECT_EQ(plan->counts().unique_tokens, 5);
  EXPECT_EQ(plan->counts().mask_bytes, 100);
  EXPECT_EQ(plan->counts().segment_groups, 0);
}

TEST(RequestPlan, PathLongerThanTheBudgetIsRefused) {
  PathBatch batch;
  batch.AddQuestion({1}, {{2}});
  batch.AddQuestion({1, 2}, {{3}, {3, 4}});
  EXPECT_TRUE(Plan(batch, Options(Backend::kAuto), 4).ok());
  const absl::Status status = Plan(batch, Options(Backend::kAuto), 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("questions[1].candidates[1].tokens: 4 tokens exceed max_batch_tokens 3"));
}

// The four questions begin with the same 50 tokens and have 5 tokens of their own.
TEST(RequestPlan, APlanThatFitsTheSmallerBudgetKeepsWhatQuestionsShare) {
  PathBatch batch;
  Path prefix(50);
  std::iota(prefix.begin(), prefix.end(), 1);
  for (int32_t question = 0; question < 4; ++question) {
    Path own = prefix;
    own.push_back(100 + question);
    batch.AddQuestion(own, {{200, 201}, {210, 211}});
  }
  RouteOptions options = Options(Backend::kAuto);
  options.policy = Policy::kMeasured;
  options.costs = std::make_shared<const RouteCosts>(
      RouteCosts{{{Backend::kPath, {0, 0, 1, 0}}, {Backend::kDense, {0, 0, 1, 0}}}});
  const auto plan = Plan(batch, options);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->num_parts(), 1);
  ASSERT_EQ(plan->BuildPart(0).computed_tokens(), 50 + 4 * 5);

  const auto fits = plan->CutSmaller(70);
  ASSERT_TRUE(fits.ok());
  ASSERT_EQ(fits->num_parts(), 1);
  EXPECT_EQ(fits->BuildPart(0).computed_tokens(), 70);
  ExpectEndpointsReadTheirPaths(batch, fits->BuildPart(0));

  const auto cut = plan->CutSmaller(69);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->num_parts(), 4);
  for (int32_t part = 0; part < cut->num_parts(); ++part) {
    EXPECT_LE(cut->BuildPart(part).computed_tokens(), 69);
    ExpectEndpointsReadTheirPaths(batch, cut->BuildPart(part));
  }
}

TEST(RequestPlan, RefusesBadOptionsAndBatches) {
  PathBatch batch;
  batch.AddQuestion({1}, {{2}});
  for (const int64_t budget : {int64_t{0}, int64_t{-1}}) {
    const absl::Status status = Plan(batch, Options(Backend::kAuto), budget).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("max_batch_tokens: " + std::to_string(budget) + " is below 1"));
  }
  RouteOptions negative = Options(Backend::kAuto);
  negative.max_mask_bytes = -1;
  EXPECT_EQ(Plan(batch, negative).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Plan(batch, Options(Backend::kFused)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Plan(PathBatch(), Options(Backend::kAuto)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace canopy
