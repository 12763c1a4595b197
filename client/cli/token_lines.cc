#include "client/cli/token_lines.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text_table.h"

namespace canopy::client {
namespace {

// Side by side, and of one run; the rest is counted.
constexpr uint64_t kTokensPerBlock = 8;
constexpr uint64_t kMaxTokens = 64;
constexpr int kMaxTops = 5;

using Result = v1::CandidateResult;

std::string Number(float value) { return absl::StrFormat("%.4f", value); }

// The number of a list that begins at path token `first`; '' where the list has none.
template <typename List>
std::string CellAt(const List& list, uint64_t first, uint64_t token) {
  return token < first || token - first >= static_cast<uint64_t>(list.size())
             ? ""
             : Number(list[static_cast<int>(token - first)]);
}

// Values stand at every token in scope, the path's first included.
uint64_t FirstValue(const Result& result) {
  return result.tokens() - static_cast<uint64_t>(result.values_size());
}

struct Row {
  const char* title;
  bool (*has)(const Result& result);
  std::string (*cell)(const Result& result, uint64_t token);
};

const Row kRows[] = {
    {"logprob", [](const Result& r) { return !r.token_logprobs().empty(); },
     [](const Result& r, uint64_t token) {
       return CellAt(r.token_logprobs(), r.first_scored_token(), token);
     }},
    {"entropy", [](const Result& r) { return !r.entropy().empty(); },
     [](const Result& r, uint64_t token) {
       return CellAt(r.entropy(), r.first_scored_token(), token);
     }},
    {"min logit", [](const Result& r) { return !r.min_logit().empty(); },
     [](const Result& r, uint64_t token) {
       return CellAt(r.min_logit(), r.first_scored_token(), token);
     }},
    {"max logit", [](const Result& r) { return !r.max_logit().empty(); },
     [](const Result& r, uint64_t token) {
       return CellAt(r.max_logit(), r.first_scored_token(), token);
     }},
    {"value", [](const Result& r) { return !r.values().empty(); },
     [](const Result& r, uint64_t token) { return CellAt(r.values(), FirstValue(r), token); }},
};

// The `rank`-th most likely token at a position and its log-prob, as `7 -1.0000`.
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

// The first token of the path that any list covers.
uint64_t FirstCovered(const Result& result) {
  const bool has_distributions = !result.token_logprobs().empty() || !result.entropy().empty() ||
                                 !result.min_logit().empty() || !result.top_logprobs().empty();
  return std::min(has_distributions ? result.first_scored_token() : result.tokens(),
                  FirstValue(result));
}

// Path tokens begin .. end - 1, which `node` holds.
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
    // A root's first token has a value and nothing else.
    if (any) {
      table.AddRow(std::move(cells));
    }
  };
  for (const Row& row : kRows) {
    if (row.has(result)) {
      add_row(row.title, [&](uint64_t token) { return row.cell(result, token); });
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

// How much of what was asked for `result` shows: 2 = all of it, 0 = no per-token list.
int Completeness(const Result& result) {
  return result.unscored_reason().empty() ? 2 : FirstCovered(result) < result.tokens() ? 1 : 0;
}

// Whose lists have the tokens of each node: any candidate whose path goes through it, since all
// have the same numbers there, and rather one that lacks no output; -1 = none.
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
