#include "client/cli/score_table.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/score_columns.h"
#include "client/cli/stats_lines.h"
#include "client/cli/text_table.h"
#include "client/cli/token_lines.h"
#include "client/cli/tree_drawing.h"
#include "client/enum_names.h"
#include "client/path_tree.h"

namespace canopy::client {
namespace {

// What ranks a candidate, larger = better: whether it can be ranked at all, and by which number.
std::pair<bool, float> RankKey(const v1::CandidateResult& result) {
  if (!result.unscored_reason().empty()) {
    return {false, 0};
  }
  if (result.has_score()) {
    return {true, result.score()};
  }
  if (result.has_probability()) {
    return {true, result.probability()};
  }
  return {result.has_sum_logprob(), result.sum_logprob()};
}

// Indices of the candidates, the best first.
std::vector<int> Ranked(const v1::QuestionResult& result) {
  std::vector<int> order(result.candidates_size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&result](int left, int right) {
    return RankKey(result.candidates(left)) > RankKey(result.candidates(right));
  });
  return order;
}

std::string Answer(const v1::QuestionResult& result) {
  if (result.has_boolean()) {
    return absl::StrFormat(": %s (probability of true %.4f)",
                           result.boolean().value() ? "true" : "false",
                           result.boolean().probability());
  }
  if (result.has_choice()) {
    return absl::StrFormat(": %s (probability %.4f, margin %.4f)",
                           ShownId(result.choice().id(), static_cast<int>(result.choice().index())),
                           result.choice().probability(), result.choice().margin());
  }
  if (result.has_score()) {
    return absl::StrFormat(": level %d (expected %.4f)", result.score().level(),
                           result.score().expected());
  }
  return "";
}

TextTable EmptyTable(const std::vector<ScoreColumn>& columns) {
  std::vector<TextTable::Column> titles = {
      {" "}, {"rank"}, {"candidate", TextTable::Align::kLeft}, {"tokens"}};
  for (const ScoreColumn& column : columns) {
    titles.push_back({column.title, column.align});
  }
  return TextTable(std::move(titles));
}

// `first_row` is the row of the question's first candidate in the answer's vectors.
std::string QuestionTable(const v1::QuestionResult& result, const std::vector<ScoreColumn>& columns,
                          uint64_t first_row, const Palette& palette) {
  const std::vector<int> order = Ranked(result);
  const bool has_winner = !order.empty() && RankKey(result.candidates(order[0])).first;
  TextTable table = EmptyTable(columns);
  std::vector<size_t> ranks(order.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (result.has_score()) {
    // Levels stay in their own order, so that the bars draw the distribution over them.
    std::sort(ranks.begin(), ranks.end(),
              [&order](size_t left, size_t right) { return order[left] < order[right]; });
  }
  for (const size_t rank : ranks) {
    const v1::CandidateResult& candidate = result.candidates(order[rank]);
    const bool scored = candidate.unscored_reason().empty();
    const bool ranked = RankKey(candidate).first;
    std::vector<std::string> cells = {
        rank == 0 && has_winner ? "*" : "", ranked ? absl::StrCat(rank + 1) : "-",
        ShownId(candidate.id(), order[rank]), absl::StrCat(candidate.tokens())};
    for (const ScoreColumn& column : columns) {
      cells.push_back(scored ? column.cell(candidate, first_row + order[rank]) : "-");
    }
    if (!scored) {
      cells[2] +=
          absl::StrCat(" (unscored: ", EscapeAndElide(candidate.unscored_reason(), 40), ")");
    }
    table.AddRow(std::move(cells));
  }
  std::string text;
  const std::vector<std::string> lines = table.Lines();
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_winner = i > 0 && ranks[i - 1] == 0 && has_winner;
    absl::StrAppend(&text,
                    i == 0      ? palette.Dim(lines[i])
                    : is_winner ? palette.Winner(lines[i])
                                : lines[i],
                    "\n");
  }
  return text;
}

}  // namespace

std::string ScoreTables(const v1::ScoreRequest& request, const v1::ScoreResponse& response,
                        const Palette& palette) {
  const std::vector<ScoreColumn> columns = ColumnsOf(response);
  std::string text;
  uint64_t first_row = 0;
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::QuestionResult& result = response.results(i);
    const std::string title =
        absl::StrCat("question ", ShownId(result.id(), i), " (",
                     EnumName(request.questions(i).kind()), ")", Answer(result));
    absl::StrAppend(&text, palette.Heading(title), "\n",
                    QuestionTable(result, columns, first_row, palette));
    if (HasTokenOutputs(result)) {
      const v1::QuestionTree tree = BuildPathTree(request.questions(i));
      text += DrawTree(request.questions(i), tree, TokenLines(tree, result), palette);
    }
    text += "\n";
    first_row += result.candidates_size();
  }
  absl::StrAppend(&text, palette.Dim("model   "), EscapeAndElide(response.model(), 40),
                  "  version ", response.model_version(), "  fingerprint ",
                  EscapeAndElide(response.model_fingerprint(), 40), "\n");
  return text + StatsLines(response.stats(), palette);
}

}  // namespace canopy::client
