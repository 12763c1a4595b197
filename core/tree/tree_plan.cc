#include "core/tree/tree_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "core/tree/costs.h"
#include "core/tree/forest.h"
#include "core/tree/router.h"
#include "core/tree/shared_forest.h"
#include "core/tree/sub_trie.h"

namespace canopy {
namespace {

// Checks that each path fits in a part of its own.
absl::Status CheckPathLengths(const PathBatch& batch, int64_t max_batch_tokens) {
  if (max_batch_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_tokens: ", max_batch_tokens, " is below 1"));
  }
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    const int32_t first_path = batch.question_offsets[question];
    for (int32_t path = first_path; path < batch.question_offsets[question + 1]; ++path) {
      if (const int64_t length = batch.PathLength(question, path); length > max_batch_tokens) {
        return absl::InvalidArgumentError(absl::StrCat(
            "questions[", question, "].candidates[", path - first_path, "].tokens: ", length,
            " tokens exceed max_batch_tokens ", max_batch_tokens));
      }
    }
  }
  return absl::OkStatus();
}

// Returns the trie of a part that holds only some paths of its question, with paths in trie order.
Trie PartTrie(const Trie& whole, absl::Span<const PathRef> paths) {
  std::vector<int32_t> endpoints;
  endpoints.reserve(paths.size());
  for (const PathRef& ref : paths) {
    endpoints.push_back(whole.path_endpoint[ref.path]);
  }
  return SelectPaths(whole, endpoints);
}

void AddForest(const Forest& forest, TreePlan& plan) {
  plan.grid = BuildForestGrid(forest);
  if (plan.backend == Backend::kSegmented) {
    plan.segments = BuildSegments(forest);
  }
}

// The fused backend shares tokens of questions by itself. The shared trie is always laid out flat.
bool MayShareQuestions(const RouteOptions& options) {
  return options.share_questions && !options.fused_supported && options.max_mask_bytes > 0 &&
         options.packing == Packing::kAuto;
}

void OfferSharedTrie(CandidateInput& input) {
  const SharedForest forest = BuildSharedForest(input.trie, 0, input.trie.num_questions());
  input.shared_trie = std::make_shared<const Trie>(AsTrie(forest, input.trie));
  input.shared_counts = input.counts;
  const LayoutChoice layout = ChooseLayout(*input.shared_trie, Packing::kPadded);
  input.shared_counts.forest_tokens = layout.forest_tokens;
  input.shared_counts.mask_bytes = layout.mask_bytes;
  CountSegments(*input.shared_trie, input.shared_counts);
}

}  // namespace

absl::StatusOr<RequestPlan> RequestPlan::Create(std::shared_ptr<const PathBatch> batch,
                                                const RouteOptions& options,
                                                int64_t max_batch_tokens, TrieUse trie_use) {
  CANOPY_RETURN_IF_ERROR(ValidateRouteOptions(options));
  CANOPY_RETURN_IF_ERROR(ValidatePathBatch(*batch));
  CANOPY_RETURN_IF_ERROR(CheckPathLengths(*batch, max_batch_tokens));

  RequestPlan plan;
  plan.batch_ = std::move(batch);
  plan.counts_ = CountPaths(*plan.batch_);
  const bool needs_trie = !RouteWithoutTrie(options, plan.counts_).has_value();
  if (needs_trie || trie_use == TrieUse::kAlways) {
    CANOPY_RETURN_IF_ERROR(plan.MakeTrie(options));
  }
  if (needs_trie && IsRoutedByCost(options)) {
    plan.RouteByCost(options, max_batch_tokens);
  } else {
    plan.RouteByRules(options, max_batch_tokens);
    if (trie_use == TrieUse::kAlways && options.costs != nullptr) {
      plan.Forecast(options, max_batch_tokens);
    }
  }
  plan.route_.policy = options.policy;
  plan.fused_shares_questions_ = plan.route_.backend == Backend::kFused && options.share_questions;
  return plan;
}

absl::Status RequestPlan::MakeTrie(const RouteOptions& options) {
  CANOPY_ASSIGN_OR_RETURN(Trie trie, BuildTrie(*batch_));
  trie_ = std::make_shared<const Trie>(std::move(trie));
  const LayoutChoice choice = options.backend == Backend::kFused
                                  ? FlatLayoutWithoutMask(*trie_)
                                  : ChooseLayout(*trie_, options.packing);
  route_.layout = choice.layout;
  CountForest(*trie_, choice, counts_);
  return absl::OkStatus();
}

void RequestPlan::RouteByRules(const RouteOptions& options, int64_t max_batch_tokens) {
  const Layout layout = route_.layout;
  std::optional<Route> route = RouteWithoutTrie(options, counts_);
  if (!route.has_value()) {
    route = RouteWithoutSegments(options, counts_);
  }
  if (!route.has_value()) {
    CountSegments(*trie_, counts_);
    route = RouteWithSegments(options, counts_);
  }
  route_ = *route;
  route_.layout = layout;
  cut_ = CutIntoParts(*batch_, trie_.get(), route_, max_batch_tokens);
}

void RequestPlan::RouteByCost(const RouteOptions& options, int64_t max_batch_tokens) {
  const std::vector<RouteCandidate> candidates = Forecast(options, max_batch_tokens);
  const RouteCandidate& least = LeastCostly(candidates);
  route_ = least.route;
  cut_ = least.cut;
  forecast_ms_ = least.ms;
  shared_trie_ = least.shared_trie;
  if (route_.backend == Backend::kFused) {
    CountForest(*trie_, FlatLayoutWithoutMask(*trie_), counts_);
  } else {
    counts_ = least.counts;
  }
}

std::vector<RouteCandidate> RequestPlan::Forecast(const RouteOptions& options,
                                                  int64_t max_batch_tokens) {
  CandidateInput input = {
      *batch_, *trie_,           counts_, ChooseLayout(*trie_, options.packing).layout,
      options, max_batch_tokens, nullptr, {}};
  CountSegments(*trie_, input.counts);
  if (MayShareQuestions(options) && trie_->num_questions() > 1) {
    OfferSharedTrie(input);
  }
  std::vector<RouteCandidate> candidates = RouteCandidates(input);
  for (const RouteCandidate& candidate : candidates) {
    forecasts_.push_back({candidate.route.backend, candidate.load, candidate.ms});
  }
  return candidates;
}

absl::StatusOr<RequestPlan> RequestPlan::CutSmaller(int64_t max_batch_tokens) const {
  CANOPY_RETURN_IF_ERROR(CheckPathLengths(*batch_, max_batch_tokens));
  // A plan that already fits is not cut again, because cutting loses the tokens that questions
  // share.
  if (std::all_of(cut_.parts.begin(), cut_.parts.end(), [max_batch_tokens](const Part& part) {
        return part.rows * part.columns <= max_batch_tokens;
      })) {
    return *this;
  }
  RequestPlan smaller = *this;
  smaller.shared_trie_ = nullptr;
  smaller.cut_ = CutIntoParts(*batch_, trie_.get(), route_, max_batch_tokens);
  return smaller;
}

absl::Span<const PathRef> RequestPlan::PartPaths(int32_t part_index) const {
  const Part& part = cut_.parts[part_index];
  return absl::MakeConstSpan(cut_.paths).subspan(part.first_path, part.end_path - part.first_path);
}

TreePlan RequestPlan::BuildPart(int32_t part_index) const {
  const Part& part = cut_.parts[part_index];
  const absl::Span<const PathRef> paths = PartPaths(part_index);
  TreePlan plan;
  plan.backend = route_.backend;
  plan.paths.reserve(paths.size());
  plan.endpoints.reserve(paths.size());
  plan.prefix_tokens.reserve(paths.size());
  for (const PathRef& ref : paths) {
    plan.paths.push_back(ref.path);
    plan.prefix_tokens.push_back(batch_->prefixes[ref.question].size);
  }
  if (route_.backend == Backend::kPath) {
    plan.grid = BuildPathGrid(*batch_, paths);
    int32_t row_begin = 0;
    for (const PathRef& ref : paths) {
      const auto length = static_cast<int32_t>(batch_->PathLength(ref.question, ref.path));
      plan.endpoints.push_back(row_begin + length - 1);
      row_begin += plan.grid.columns;
    }
  } else if (shared_trie_ != nullptr) {
    AddForest(LayOutForest(*shared_trie_, Layout::kFlat, 0, 1), plan);
    plan.endpoints = shared_trie_->path_endpoint;
  } else if (part.whole_questions && fused_shares_questions_) {
    SharedForest forest = BuildSharedForest(*trie_, part.first_question, part.end_question);
    plan.grid = std::move(forest.grid);
    const int32_t first_node = trie_->question_node_offsets[part.first_question];
    for (const PathRef& ref : paths) {
      plan.endpoints.push_back(forest.node_slot[trie_->path_endpoint[ref.path] - first_node]);
    }
  } else if (part.whole_questions) {
    const Forest forest =
        LayOutForest(*trie_, route_.layout, part.first_question, part.end_question);
    AddForest(forest, plan);
    for (const PathRef& ref : paths) {
      plan.endpoints.push_back(trie_->path_endpoint[ref.path] + forest.SlotShift(ref.question));
    }
  } else {
    Trie trie = PartTrie(*trie_, paths);
    AddForest(LayOutForest(trie, route_.layout, 0, 1), plan);
    plan.endpoints = std::move(trie.path_endpoint);
  }
  return plan;
}

}  // namespace canopy
