#include "core/tree/plan_picture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace canopy {
namespace {

// Sizes in SVG user units.
constexpr int kMargin = 12;
constexpr int kRowHeight = 24;
constexpr int kBoxHeight = 18;
constexpr int kGap = 14;  // between a run and its children
constexpr int kCharacterWidth = 7;
constexpr int kTextPadding = 5;
constexpr int kMarkRadius = 4;
constexpr int kMinLaneWidth = 320;
constexpr int kMaxListedCandidates = 4;

// The position of a drawn run. Rows count from the top of the picture.
struct Place {
  int left = 0;
  int right = 0;
  int row = 0;
  bool has_child = false;
};

// Escapes a string for text and attributes. Replaces characters that XML cannot represent by
// spaces.
std::string Escape(absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    printable.push_back(static_cast<unsigned char>(c) < ' ' ? ' ' : c);
  }
  return absl::StrReplaceAll(printable, {{"&", "&amp;"},
                                         {"<", "&lt;"},
                                         {">", "&gt;"},
                                         {"\"", "&quot;"},
                                         {"'", "&#39;"},
                                         {"\xEF\xBF\xBE", " "},
                                         {"\xEF\xBF\xBF", " "}});
}

int TextWidth(absl::string_view text) {
  return static_cast<int>(text.size()) * kCharacterWidth + 2 * kTextPadding;
}

std::string CandidateLabel(const std::vector<int32_t>& candidates) {
  const size_t listed = std::min<size_t>(candidates.size(), kMaxListedCandidates);
  std::string label = absl::StrJoin(candidates.begin(), candidates.begin() + listed, " ");
  if (listed < candidates.size()) {
    absl::StrAppend(&label, " +", candidates.size() - listed);
  }
  return label;
}

// Collects the elements of the picture from top to bottom.
class ForestPainter {
 public:
  void DrawLane(absl::string_view name, absl::Span<const TrieRun> runs) {
    const int first_row = num_rows_;
    DrawText(kMargin, num_rows_++, "lane", Escape(name));
    std::vector<Place> places;
    places.reserve(runs.size());
    int last_row = num_rows_ - 1;
    for (const TrieRun& run : runs) {
      Place place;
      place.left = 2 * kMargin;
      bool first_child = false;
      if (run.parent >= 0) {
        Place& parent = places[run.parent];
        place.left = parent.right + kGap;
        first_child = !std::exchange(parent.has_child, true);
        place.row = parent.row;
      }
      if (!first_child) {
        place.row = ++last_row;
      }
      DrawRun(run, place, run.parent < 0 ? nullptr : &places[run.parent]);
      places.push_back(place);
    }
    num_rows_ = last_row + 1;
    lanes_.emplace_back(first_row, num_rows_);
  }

  void DrawNote(absl::string_view text) { DrawText(kMargin, num_rows_++, "note", Escape(text)); }

  std::string Finish() const {
    const int height = Top(num_rows_) + kMargin;
    std::string svg = absl::StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width_, "\" height=\"", height,
        "\" viewBox=\"0 0 ", width_, " ", height, "\">\n",
        "<style>text{font:11px monospace;fill:#1f2328}.lane{font-weight:bold}"
        ".note{font-style:italic}.run{fill:#dbeafe;stroke:#1d4ed8}.end{fill:#15803d}"
        ".edge{fill:none;stroke:#6b7280}.page{fill:#fff}.back{fill:#f6f8fa}</style>\n");
    absl::StrAppend(&svg, "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
    for (const auto& [first_row, end_row] : lanes_) {
      absl::StrAppend(&svg, "<rect class=\"back\" x=\"", kMargin / 2, "\" y=\"", Top(first_row),
                      "\" width=\"", width_ - kMargin, "\" height=\"",
                      Top(end_row) - Top(first_row) - 2, "\"/>\n");
    }
    absl::StrAppend(&svg, body_, "</svg>\n");
    return svg;
  }

 private:
  static int Top(int row) { return kMargin + row * kRowHeight; }
  static int Middle(int row) { return Top(row) + kRowHeight / 2; }

  // Precondition: `text` is escaped.
  void DrawText(int x, int row, absl::string_view style, absl::string_view text) {
    absl::StrAppend(&body_, "<text class=\"", style, "\" x=\"", x, "\" y=\"", Middle(row) + 4,
                    "\">", text, "</text>\n");
    Widen(x + TextWidth(text));
  }

  // Draws a run and sets its right edge in `place`.
  void DrawRun(const TrieRun& run, Place& place, const Place* parent) {
    const std::string size = absl::StrCat(run.size);
    place.right = place.left + TextWidth(size);
    const int middle = Middle(place.row);
    if (parent != nullptr) {
      const int bend = parent->right + kGap / 2;
      absl::StrAppend(&body_, "<path class=\"edge\" d=\"M", parent->right, " ", Middle(parent->row),
                      "H", bend, "V", middle, "H", place.left, "\"/>\n");
    }
    absl::StrAppend(&body_, "<rect class=\"run\" x=\"", place.left, "\" y=\"",
                    middle - kBoxHeight / 2, "\" width=\"", place.right - place.left,
                    "\" height=\"", kBoxHeight, "\"><title>tokens ", run.start_depth, " to ",
                    run.start_depth + run.size - 1, "</title></rect>\n");
    DrawText(place.left + kTextPadding, place.row, "size", size);
    if (!run.candidates.empty()) {
      absl::StrAppend(&body_, "<circle class=\"end\" cx=\"", place.right, "\" cy=\"", middle,
                      "\" r=\"", kMarkRadius, "\"/>\n");
      const std::string label = CandidateLabel(run.candidates);
      DrawText(place.right + kMarkRadius + 2, place.row, "ends", label);
      place.right += kMarkRadius + TextWidth(label);
    }
    Widen(place.right);
  }

  void Widen(int right) { width_ = std::max(width_, right + kMargin); }

  std::string body_;
  std::vector<std::pair<int, int>> lanes_;  // first and end row
  int num_rows_ = 0;
  int width_ = kMinLaneWidth;
};

}  // namespace

std::vector<TrieRun> QuestionRuns(const PathBatch& batch, const Trie& trie, int32_t question) {
  // The (endpoint, candidate) pairs in depth-first order.
  std::vector<std::pair<int32_t, int32_t>> ends;
  const int32_t first_path = batch.question_offsets[question];
  for (int32_t path = first_path; path < batch.question_offsets[question + 1]; ++path) {
    ends.emplace_back(trie.path_endpoint[path], path - first_path);
  }
  std::sort(ends.begin(), ends.end());

  const int32_t first_node = trie.question_node_offsets[question];
  const int32_t end_node = trie.question_node_offsets[question + 1];
  std::vector<int32_t> node_to_run(end_node - first_node);
  std::vector<TrieRun> runs;
  auto end = ends.begin();
  for (int32_t node = first_node; node < end_node;) {
    TrieRun run;
    const int32_t parent = trie.parent[node];
    run.parent = parent < 0 ? -1 : node_to_run[parent - first_node];
    run.start_depth = trie.depth[node];
    run.first_node = node;
    // Nodes with the same exit form one chain. The chain is split after the next endpoint.
    const int32_t stop = end == ends.end() ? end_node : end->first + 1;
    const int32_t exit = trie.exit[node];
    while (node < stop && trie.exit[node] == exit) {
      node_to_run[node - first_node] = static_cast<int32_t>(runs.size());
      ++node;
    }
    run.size = node - run.first_node;
    for (; end != ends.end() && end->first == node - 1; ++end) {
      run.candidates.push_back(end->second);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::string DrawForest(const PathBatch& batch, const Trie& trie, int64_t max_runs,
                       const std::vector<std::string>& question_ids) {
  ForestPainter painter;
  painter.DrawNote("a box is a run of tokens, a dot where candidates end");
  int64_t num_left = std::max<int64_t>(max_runs, 0);
  int64_t num_undrawn = 0;
  for (int32_t question = 0; question < trie.num_questions(); ++question) {
    const std::vector<TrieRun> runs = QuestionRuns(batch, trie, question);
    const auto drawn = std::min(num_left, static_cast<int64_t>(runs.size()));
    num_left -= drawn;
    num_undrawn += static_cast<int64_t>(runs.size()) - drawn;
    if (drawn > 0) {
      const bool named = static_cast<size_t>(question) < question_ids.size();
      painter.DrawLane(named ? absl::StrCat("question ", question, " ", question_ids[question])
                             : absl::StrCat("question ", question),
                       absl::MakeConstSpan(runs).first(drawn));
    }
  }
  if (num_undrawn > 0) {
    painter.DrawNote(absl::StrCat(num_undrawn, " more runs are not drawn"));
  }
  return painter.Finish();
}

}  // namespace canopy
