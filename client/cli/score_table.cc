#include "client/cli/score_table.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/score_columns.h"
#include "client/cli/stats_lines.h"
#include "client/cli/text_table.h"
#include "client/cli/token_lines.h"
#include "client/cli/tree_drawing.h"
#include "client/enum_names.h"
#include "client/path_tree.h"

namespace canopy::client {
namespace {

// The sort key of a candidate, larger = better: whether it can be ranked, and the number that ranks
// it.
using RankKey = std::pair<bool, float>;

// Returns the keys of a question's candidates. All keys are numbers of the same kind: a candidate
// without a score is not ranked by its log-probability among the scores of others.
std::vector<RankKey> RankKeys(const v1::QuestionResult& result) {
  bool has_score = false;
  bool has_probability = false;
  for (const v1::CandidateResult& candidate : result.candidates()) {
    has_score = has_score || candidate.has_score();
    has_probability = has_probability || candidate.has_probability();
  }
  std::vector<RankKey> keys;
  for (const v1::CandidateResult& candidate : result.candidates()) {
    keys.push_back(has_score ? RankKey(candidate.has_score(), candidate.score())
                   : has_probability
                       ? RankKey(candidate.has_probability(), candidate.probability())
                       : RankKey(candidate.has_sum_logprob(), candidate.sum_logprob()));
  }
  return keys;
}

// Returns the indices of the candidates, the best first.
std::vector<int> Ranked(const std::vector<RankKey>& keys) {
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&keys](int left, int right) { return keys[left] > keys[right]; });
  return order;
}

// Returns the note beside the name of a candidate that lacks requested outputs.
std::string UnscoredNote(const v1::CandidateResult& result, bool shows_nothing) {
  const std::string reason = EscapeAndElide(result.unscored_reason(), 40);
  if (shows_nothing) {
    return absl::StrCat(" (unscored: ", reason, ")");
  }
  const std::string names = absl::StrJoin(result.unscored_outputs(), ", ");
  return absl::StrCat(" (no ", EscapeAndElide(names, 80), ": ", reason, ")");
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
  const std::vector<RankKey> keys = RankKeys(result);
  const std::vector<int> order = Ranked(keys);
  const bool has_winner = !order.empty() && keys[order[0]].first;
  TextTable table = EmptyTable(columns);
  std::vector<size_t> ranks(order.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (result.has_score()) {
    // Levels keep their own order, so that the bars show the distribution over them.
    std::sort(ranks.begin(), ranks.end(),
              [&order](size_t left, size_t right) { return order[left] < order[right]; });
  }
  for (const size_t rank : ranks) {
    const v1::CandidateResult& candidate = result.candidates(order[rank]);
    const bool scored = candidate.unscored_reason().empty();
    const bool ranked = keys[order[rank]].first;
    std::vector<std::string> cells = {
        rank == 0 && has_winner ? "*" : "", ranked ? absl::StrCat(rank + 1) : "-",
        ShownId(candidate.id(), order[rank]), absl::StrCat(candidate.tokens())};
    bool shows_nothing = true;
    for (const ScoreColumn& column : columns) {
      std::string cell = column.cell(candidate, first_row + order[rank]);
      shows_nothing = shows_nothing && cell.empty();
      cells.push_back(cell.empty() && !scored ? "-" : std::move(cell));
    }
    if (!scored) {
      cells[2] += UnscoredNote(candidate, shows_nothing);
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
