#include "client/cli/tree_drawing.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/stats_lines.h"
#include "client/enum_names.h"
#include "client/token_ids.h"

namespace canopy::client {
namespace {

// The most tokens and candidates of one node that are shown; the others are counted.
constexpr int kMaxShown = 8;

std::string Positions(const v1::TreeNode& node) {
  const uint64_t last = node.start_depth() + node.tokens_size() - 1;
  return last == node.start_depth() ? absl::StrCat(last)
                                    : absl::StrCat(node.start_depth(), "..", last);
}

std::string Tokens(const v1::TreeNode& node) {
  if (node.tokens_size() <= kMaxShown) {
    return absl::StrCat("[", absl::StrJoin(node.tokens(), " "), "]");
  }
  const auto first = node.tokens().begin();
  return absl::StrCat("[", absl::StrJoin(first, first + kMaxShown - 1, " "), " ... ",
                      node.tokens(node.tokens_size() - 1), "] ", node.tokens_size(), " tokens");
}

std::string Endpoints(const v1::Question& question, const v1::TreeNode& node,
                      const Palette& palette) {
  if (node.candidates().empty()) {
    return "";
  }
  const int num_shown = std::min(node.candidates_size(), kMaxShown);
  std::vector<std::string> names;
  for (int i = 0; i < num_shown; ++i) {
    const auto index = static_cast<int>(node.candidates(i));
    names.push_back(ShownId(question.candidates(index).id(), index));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (num_shown < node.candidates_size()) {
    absl::StrAppend(&text, " and ", node.candidates_size() - num_shown, " more");
  }
  return absl::StrCat("  <- ", palette.Winner(text));
}

// Returns, for each parent, the last of its children; slot 0 is for the roots.
std::vector<int> LastChildren(const v1::QuestionTree& tree) {
  std::vector<int> last_children(tree.nodes_size() + 1, -1);
  for (int i = 0; i < tree.nodes_size(); ++i) {
    last_children[tree.nodes(i).parent() + 1] = i;
  }
  return last_children;
}

uint64_t NumUniqueTokens(const v1::QuestionTree& tree) {
  uint64_t count = 0;
  for (const v1::TreeNode& node : tree.nodes()) {
    count += node.tokens_size();
  }
  return count;
}

uint64_t NumInputTokens(const v1::Question& question) {
  uint64_t count = 0;
  for (const v1::Candidate& candidate : question.candidates()) {
    count += NumPathTokens(question, candidate);
  }
  return count;
}

// Returns the predicted time of each backend; empty if no costs were measured.
std::string ForecastLine(const v1::ExplainResponse& response, const Palette& palette) {
  std::string line;
  for (const v1::RouteForecast& forecast : response.forecasts()) {
    absl::StrAppend(&line, line.empty() ? palette.Dim("predict ") : "  ",
                    EnumName(forecast.backend()),
                    absl::StrFormat(" %.3f ms", forecast.predicted_ms()));
  }
  return line.empty() ? line : line + "\n";
}

// Returns the cost of the requested outputs, and the footer with the planned savings.
std::string PlanLines(const v1::ExplainResponse& response, const Palette& palette) {
  const v1::PlannedWork& work = response.work();
  v1::Stats stats = response.stats();
  stats.set_computed_tokens(work.computed_tokens());
  return absl::StrCat(
      StatsLines(stats, palette), ForecastLine(response, palette), palette.Dim("planned "),
      "outputs ", work.outputs().empty() ? "-" : absl::StrJoin(work.outputs(), " "),
      "  rows: ", work.endpoint_rows(), " endpoints, ", work.distribution_rows(),
      " distributions, ", work.value_rows(), " values  answer ", work.answer_bytes(), " bytes\n");
}

}  // namespace

std::string DrawTree(const v1::Question& question, const v1::QuestionTree& tree,
                     const std::vector<std::vector<std::string>>& details, const Palette& palette) {
  const std::vector<int> last_children = LastChildren(tree);
  std::string drawing;
  // The text to the left of a node's children: lines of the ancestors that have further siblings.
  std::vector<std::string> rails(tree.nodes_size() + 1);
  for (int i = 0; i < tree.nodes_size(); ++i) {
    const v1::TreeNode& node = tree.nodes(i);
    const std::string& left = rails[node.parent() + 1];
    const bool is_last = last_children[node.parent() + 1] == i;
    absl::StrAppend(&drawing, left, is_last ? "`-- " : "|-- ", palette.Dim(Positions(node)), "  ",
                    Tokens(node), Endpoints(question, node, palette), "\n");
    rails[i + 1] = left + (is_last ? "    " : "|   ");
    if (!details.empty()) {
      const char* rail = last_children[i + 1] >= 0 ? "|   " : "    ";
      for (const std::string& line : details[i]) {
        absl::StrAppend(&drawing, rails[i + 1], rail, line, "\n");
      }
    }
  }
  return drawing;
}

std::string DrawTrees(const v1::ScoreRequest& request, const v1::ExplainResponse& response,
                      const Palette& palette) {
  std::string drawing;
  for (int i = 0; i < response.questions_size(); ++i) {
    const v1::Question& question = request.questions(i);
    const v1::QuestionTree& tree = response.questions(i);
    const std::string title = absl::StrCat(
        "question ", ShownId(question.id(), i), ": ", question.candidates_size(), " candidates, ",
        NumUniqueTokens(tree), " tokens instead of ", NumInputTokens(question));
    absl::StrAppend(&drawing, palette.Heading(title), "\n");
    absl::StrAppend(&drawing, DrawTree(question, tree, {}, palette), "\n");
  }
  return drawing + PlanLines(response, palette);
}

}  // namespace canopy::client
