#include "client/cli/token_lines.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text_table.h"
#include "client/output_fields.h"

namespace canopy::client {
namespace {

// The most tokens of one run that are shown side by side; the others are counted.
constexpr uint64_t kTokensPerBlock = 8;
constexpr uint64_t kMaxTokens = 64;
constexpr int kMaxTops = 5;

using Result = v1::CandidateResult;

std::string Number(float value) { return absl::StrFormat("%.4f", value); }

// Returns the path token of a list's first entry.
uint64_t FirstToken(const ResultField& list, const Result& result) {
  return list.start == ListStart::kFirstScored ? result.first_scored_token()
                                               : result.tokens() - SizeOf(result, *list.field);
}

// Returns the number of a list at a path token; '' if the list has none.
std::string CellAt(const ResultField& list, const Result& result, uint64_t token) {
  const uint64_t first = FirstToken(list, result);
  if (token < first || token - first >= SizeOf(result, *list.field)) {
    return "";
  }
  const auto index = static_cast<size_t>(token - first);
  return IsFloat(*list.field) ? Number(FloatsOf(result, *list.field)[index])
                              : absl::StrCat(IntegersOf(result, *list.field)[index]);
}

// Returns the `rank`-th most likely token at a position and its log-prob, such as `7 -1.0000`.
std::string TopCell(const Result& result, int rank, uint64_t token) {
  const uint64_t index = token - result.first_scored_token();
  if (token < result.first_scored_token() ||
      index >= static_cast<uint64_t>(result.top_logprobs_size())) {
    return "";
  }
  const v1::TopLogprobs& top = result.top_logprobs(static_cast<int>(index));
  return rank < top.ids_size() ? absl::StrCat(top.ids(rank), " ", Number(top.logprobs(rank))) : "";
}

int NumTops(const Result& result) {
  int count = 0;
  for (const v1::TopLogprobs& top : result.top_logprobs()) {
    count = std::max(count, top.ids_size());
  }
  return count;
}

// Returns the first token of the path that any list covers.
uint64_t FirstCovered(const Result& result) {
  uint64_t first = result.tokens();
  for (const ResultField& list : TokenLists()) {
    if (Has(result, *list.field)) {
      first = std::min(first, FirstToken(list, result));
    }
  }
  return first;
}

// Appends the lines of the path tokens begin .. end - 1, which are in `node`.
void AppendBlock(const v1::TreeNode& node, const Result& result, uint64_t begin, uint64_t end,
                 std::vector<std::string>* lines) {
  std::vector<TextTable::Column> columns = {{"token", TextTable::Align::kLeft}};
  for (uint64_t token = begin; token < end; ++token) {
    columns.push_back({absl::StrCat(node.tokens(static_cast<int>(token - node.start_depth())))});
  }
  TextTable table(std::move(columns));
  const auto add_row = [&](std::string title, const auto& cell) {
    std::vector<std::string> cells = {std::move(title)};
    bool any = false;
    for (uint64_t token = begin; token < end; ++token) {
      cells.push_back(cell(token));
      any = any || !cells.back().empty();
    }
    // The first token of a root has a value and no other output.
    if (any) {
      table.AddRow(std::move(cells));
    }
  };
  for (const ResultField& list : TokenLists()) {
    if ((IsFloat(*list.field) || IsInteger(*list.field)) && Has(result, *list.field)) {
      add_row(EntryTitle(*list.field), [&](uint64_t token) { return CellAt(list, result, token); });
    }
  }
  for (int rank = 0; rank < std::min(NumTops(result), kMaxTops); ++rank) {
    add_row(absl::StrCat("top ", rank + 1),
            [&](uint64_t token) { return TopCell(result, rank, token); });
  }
  for (std::string& line : table.Lines()) {
    lines->push_back(std::move(line));
  }
}

std::vector<std::string> NodeLines(const v1::TreeNode& node, const Result& result) {
  std::vector<std::string> lines;
  const uint64_t node_end = node.start_depth() + static_cast<uint64_t>(node.tokens_size());
  const uint64_t begin = std::max(node.start_depth(), FirstCovered(result));
  if (begin >= node_end) {
    return lines;
  }
  const uint64_t end = std::min(node_end, begin + kMaxTokens);
  for (uint64_t token = begin; token < end; token += kTokensPerBlock) {
    AppendBlock(node, result, token, std::min(end, token + kTokensPerBlock), &lines);
  }
  if (end < node_end) {
    lines.push_back(absl::StrCat("and ", node_end - end, " more tokens (--format=json)"));
  }
  if (const int num_tops = NumTops(result); num_tops > kMaxTops) {
    lines.push_back(absl::StrCat("and ", num_tops - kMaxTops, " more top tokens (--format=json)"));
  }
  return lines;
}

// Returns how many of the requested outputs `result` shows: 2 = all of them, 0 = no per-token list.
int Completeness(const Result& result) {
  return result.unscored_reason().empty() ? 2 : FirstCovered(result) < result.tokens() ? 1 : 0;
}

// Returns, for each node, the candidate whose lists show its tokens; -1 = none. Any candidate whose
// path goes through the node would do, because all have the same numbers there; one that lacks no
// output is preferred.
std::vector<int> CoveringCandidates(const v1::QuestionTree& tree,
                                    const v1::QuestionResult& result) {
  std::vector<int> covering(tree.nodes_size(), -1);
  const auto offer = [&](int node, int candidate) {
    const int offered = Completeness(result.candidates(candidate));
    const int has = covering[node] < 0 ? 0 : Completeness(result.candidates(covering[node]));
    if (offered >= has && offered > 0) {
      covering[node] = candidate;
    }
  };
  for (int i = tree.nodes_size() - 1; i >= 0; --i) {
    for (const uint32_t candidate : tree.nodes(i).candidates()) {
      offer(i, static_cast<int>(candidate));
    }
    if (const int parent = tree.nodes(i).parent(); parent >= 0 && covering[i] >= 0) {
      offer(parent, covering[i]);
    }
  }
  return covering;
}

}  // namespace

bool HasTokenOutputs(const v1::QuestionResult& result) {
  return std::any_of(
      result.candidates().begin(), result.candidates().end(),
      [](const Result& candidate) { return FirstCovered(candidate) < candidate.tokens(); });
}

std::vector<std::vector<std::string>> TokenLines(const v1::QuestionTree& tree,
                                                 const v1::QuestionResult& result) {
  const std::vector<int> covering = CoveringCandidates(tree, result);
  std::vector<std::vector<std::string>> lines(tree.nodes_size());
  for (int i = 0; i < tree.nodes_size(); ++i) {
    if (covering[i] >= 0) {
      lines[i] = NodeLines(tree.nodes(i), result.candidates(covering[i]));
    }
  }
  return lines;
}

}  // namespace canopy::client
