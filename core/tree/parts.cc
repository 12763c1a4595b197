#include "core/tree/parts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/checked_math.h"
#include "core/tree/sub_trie.h"

namespace canopy {
namespace {

// The indices of a segmented part number at most twice its paths x longest path: each chain ends at
// a path's end or a branch, and reads at most as many keys as the longest path has tokens. This
// limit keeps the arrays within 256 MiB.
constexpr int64_t kMaxSegmentedPathTokens = int64_t{1} << 25;

// The size of some questions or paths in a forward.
struct Footprint {
  int64_t paths = 0;
  int64_t longest_path = 0;
  int64_t questions = 0;
  int64_t largest_trie = 0;
  int64_t nodes = 0;
};

Footprint Together(const Footprint& a, const Footprint& b) {
  return {a.paths + b.paths, std::max(a.longest_path, b.longest_path), a.questions + b.questions,
          std::max(a.largest_trie, b.largest_trie), a.nodes + b.nodes};
}

class PartCutter {
 public:
  PartCutter(const PathBatch& batch, const Trie* trie, const Route& route, int64_t max_batch_tokens)
      : batch_(batch),
        trie_(route.backend == Backend::kPath ? nullptr : trie),
        route_(route),
        // Slots are int32 indices, so there are at most 2^31 - 1 of them.
        max_slots_(std::min<int64_t>(max_batch_tokens, std::numeric_limits<int32_t>::max())) {}

  // Puts all questions into one part, whatever the layout.
  std::optional<PartList> OneRow(int64_t columns) && {
    Footprint all;
    for (int32_t question = 0; question < batch_.num_questions(); ++question) {
      all = Together(all, QuestionFootprint(question));
      AppendQuestion(question);
    }
    if (columns > max_slots_ || !IsIndexable(all)) {
      return std::nullopt;
    }
    Part part{0, batch_.num_questions(), 0, batch_.num_paths()};
    part.rows = 1;
    part.columns = columns;
    part.nodes = all.nodes;
    list_.parts.push_back(part);
    return std::move(list_);
  }

  PartList Cut() && {
    list_.paths.reserve(batch_.num_paths());
    Footprint open;
    for (int32_t question = 0; question < batch_.num_questions(); ++question) {
      const Footprint added = QuestionFootprint(question);
      if (const Footprint grown = Together(open, added); Fits(grown)) {
        open = grown;
        AppendQuestion(question);
        continue;
      }
      ClosePart(question, true, open);
      if (Fits(added)) {
        open = added;
        AppendQuestion(question);
      } else {
        open = {};
        CutQuestion(question);
      }
    }
    ClosePart(batch_.num_questions(), true, open);
    return std::move(list_);
  }

 private:
  bool Fits(const Footprint& footprint) const {
    const int64_t path_slots = SaturatingMultiply(footprint.paths, footprint.longest_path);
    if (trie_ == nullptr) {
      return path_slots <= max_slots_;
    }
    const int64_t slots = route_.layout == Layout::kFlat
                              ? footprint.nodes
                              : SaturatingMultiply(footprint.questions, footprint.largest_trie);
    return slots <= max_slots_ && IsIndexable(footprint);
  }

  bool IsIndexable(const Footprint& footprint) const {
    return route_.backend != Backend::kSegmented || footprint.paths == 1 ||
           SaturatingMultiply(footprint.paths, footprint.longest_path) <= kMaxSegmentedPathTokens;
  }

  Footprint QuestionFootprint(int32_t question) const {
    Footprint footprint;
    const int32_t first_path = batch_.question_offsets[question];
    const int32_t end_path = batch_.question_offsets[question + 1];
    footprint.paths = end_path - first_path;
    footprint.questions = 1;
    for (int32_t path = first_path; path < end_path; ++path) {
      footprint.longest_path = std::max(footprint.longest_path, batch_.PathLength(question, path));
    }
    if (trie_ != nullptr) {
      footprint.nodes =
          trie_->question_node_offsets[question + 1] - trie_->question_node_offsets[question];
      footprint.largest_trie = footprint.nodes;
    }
    return footprint;
  }

  void AppendQuestion(int32_t question) {
    for (int32_t path = batch_.question_offsets[question];
         path < batch_.question_offsets[question + 1]; ++path) {
      list_.paths.push_back({question, path});
    }
  }

  // Ends the part that began where the last part ended, unless it has no paths.
  void ClosePart(int32_t end_question, bool whole_questions, const Footprint& footprint) {
    const int32_t first_path = list_.parts.empty() ? 0 : list_.parts.back().end_path;
    const auto end_path = static_cast<int32_t>(list_.paths.size());
    if (first_path == end_path) {
      return;
    }
    Part part{list_.paths[first_path].question, end_question, first_path, end_path,
              whole_questions};
    part.nodes = footprint.nodes;
    if (trie_ == nullptr) {
      part.rows = footprint.paths;
      part.columns = footprint.longest_path;
    } else if (route_.layout == Layout::kFlat) {
      part.rows = 1;
      part.columns = footprint.nodes;
    } else {
      part.rows = footprint.questions;
      part.columns = footprint.largest_trie;
    }
    list_.parts.push_back(part);
  }

  void CutQuestion(int32_t question) {
    Footprint open;
    int32_t last_path = 0;
    for (const int32_t path : PathsInCuttingOrder(question)) {
      Footprint grown = open;
      ++grown.paths;
      grown.longest_path = std::max(open.longest_path, batch_.PathLength(question, path));
      grown.questions = 1;
      grown.nodes +=
          open.paths == 0 ? batch_.PathLength(question, path) : NodesBesides(path, last_path);
      grown.largest_trie = grown.nodes;
      if (!Fits(grown)) {
        ClosePart(question + 1, false, open);
        const int64_t length = batch_.PathLength(question, path);
        grown = {1, length, 1, length, length};
      }
      open = grown;
      last_path = path;
      list_.paths.push_back({question, path});
    }
    ClosePart(question + 1, false, open);
  }

  std::vector<int32_t> PathsInCuttingOrder(int32_t question) const {
    std::vector<int32_t> order(batch_.question_offsets[question + 1] -
                               batch_.question_offsets[question]);
    std::iota(order.begin(), order.end(), batch_.question_offsets[question]);
    const auto before = [this](int32_t a, int32_t b) {
      return trie_ == nullptr ? batch_.suffixes[a].size > batch_.suffixes[b].size
                              : trie_->path_endpoint[a] < trie_->path_endpoint[b];
    };
    // Paths usually come in this order already, and a stable sort takes its full time even then.
    if (!std::is_sorted(order.begin(), order.end(), before)) {
      std::stable_sort(order.begin(), order.end(), before);
    }
    return order;
  }

  // Returns the number of nodes of a path that the path before it in cutting order does not have.
  int64_t NodesBesides(int32_t path, int32_t last_path) const {
    if (trie_ == nullptr) {
      return 0;
    }
    int64_t nodes = 0;
    const int32_t last_endpoint = trie_->path_endpoint[last_path];
    for (int32_t node = trie_->path_endpoint[path];
         node >= 0 && !IsAncestorOrSelf(*trie_, node, last_endpoint); node = trie_->parent[node]) {
      ++nodes;
    }
    return nodes;
  }

  const PathBatch& batch_;
  const Trie* const trie_;  // null on the path backend
  const Route route_;
  const int64_t max_slots_;
  PartList list_;
};

}  // namespace

PartList CutIntoParts(const PathBatch& batch, const Trie* trie, const Route& route,
                      int64_t max_batch_tokens) {
  return PartCutter(batch, trie, route, max_batch_tokens).Cut();
}

std::optional<PartList> OnePart(const PathBatch& batch, const Trie& trie, Backend backend,
                                int64_t columns, int64_t max_batch_tokens) {
  const Route route{backend, Layout::kFlat};
  return PartCutter(batch, &trie, route, max_batch_tokens).OneRow(columns);
}

}  // namespace canopy
