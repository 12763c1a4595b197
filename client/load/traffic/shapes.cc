#include "client/load/traffic/shapes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace canopy::client {
namespace {

constexpr int kMaxCount = 1 << 20;  // of any element of a shape
// The seed of the tokens of a state that all requests share.
constexpr uint64_t kCommonSeed = 20;

QuestionGroup Group(int questions, int candidates, int prefix_tokens, int candidate_tokens) {
  QuestionGroup group;
  group.states = questions;
  group.question_tokens = prefix_tokens;
  group.candidates = candidates;
  group.candidate_tokens = candidate_tokens;
  return group;
}

QuestionGroup TypedGroup(int states) {
  QuestionGroup group = Group(states, 4, 40, 16);
  group.questions_per_state = 5;
  group.state_tokens = 400;
  return group;
}

QuestionGroup CommonState() {
  QuestionGroup group = TypedGroup(1);
  group.questions_per_state = 1;
  group.common_state = true;
  return group;
}

QuestionGroup BinaryTree(int levels, int tokens_per_level, int root_tokens) {
  QuestionGroup group = Group(1, 1 << levels, root_tokens, levels * tokens_per_level);
  group.branch_levels = levels;
  return group;
}

using Tokens = std::vector<uint32_t>;

Tokens Draw(int count, uint64_t vocab_size, std::mt19937_64* random) {
  Tokens tokens(static_cast<size_t>(count));
  for (uint32_t& token : tokens) {
    token = static_cast<uint32_t>((*random)() % vocab_size);
  }
  return tokens;
}

void Append(const Tokens& tokens, v1::TokenIds* ids) {
  ids->mutable_ids()->Add(tokens.begin(), tokens.end());
}

// Returns the tokens of each candidate of one question.
std::vector<Tokens> DrawCandidates(const QuestionGroup& group, uint64_t vocab_size,
                                   std::mt19937_64* random) {
  std::vector<Tokens> candidates(static_cast<size_t>(group.candidates));
  if (group.branch_levels == 0) {
    for (Tokens& tokens : candidates) {
      tokens = Draw(group.candidate_tokens, vocab_size, random);
    }
    return candidates;
  }
  // At each level every branch has tokens of its own. The two children of a branch begin alike only
  // by chance.
  const int tokens_per_level = group.candidate_tokens / group.branch_levels;
  for (int level = 1; level <= group.branch_levels; ++level) {
    const int leaves = 1 << (group.branch_levels - level);
    for (int first = 0; first < group.candidates; first += leaves) {
      const Tokens run = Draw(tokens_per_level, vocab_size, random);
      for (int leaf = first; leaf < first + leaves; ++leaf) {
        candidates[leaf].insert(candidates[leaf].end(), run.begin(), run.end());
      }
    }
  }
  return candidates;
}

bool ParseCount(absl::string_view text, int least, int* count) {
  return absl::SimpleAtoi(text, count) && *count >= least && *count <= kMaxCount;
}

// Parses QxC:P+T.
bool ParseSizes(absl::string_view text, QuestionGroup* group) {
  const std::vector<absl::string_view> halves = absl::StrSplit(text, ':');
  if (halves.size() != 2) {
    return false;
  }
  const std::vector<absl::string_view> counts = absl::StrSplit(halves[0], 'x');
  const std::vector<absl::string_view> tokens = absl::StrSplit(halves[1], '+');
  return counts.size() == 2 && tokens.size() == 2 && ParseCount(counts[0], 1, &group->states) &&
         ParseCount(counts[1], 1, &group->candidates) &&
         ParseCount(tokens[0], 0, &group->question_tokens) &&
         ParseCount(tokens[1], 0, &group->candidate_tokens) &&
         group->question_tokens + group->candidate_tokens > 0;
}

}  // namespace

const std::vector<Shape>& NamedShapes() {
  static const auto* shapes = new std::vector<Shape>{
      {"small", "1 question of 100 tokens, 4 candidates of 16", {Group(1, 4, 100, 16)}},
      {"typed",
       "1 state of 400 tokens, 5 questions of 40 more, 4 candidates of 16 each",
       {TypedGroup(1)}},
      {"typed16", "16 such states", {TypedGroup(16)}},
      {"state",
       "1 question of 40 tokens behind a state of 400 that all requests share, 4 candidates of 16",
       {CommonState()}},
      {"wide",
       "2 questions of 490 tokens, 64 and 2 candidates of 18",
       {Group(1, 64, 490, 18), Group(1, 2, 490, 18)}},
      {"candidates255",
       "1 question of 1024 tokens, 255 candidates of 32",
       {Group(1, 255, 1'024, 32)}},
      {"rollout",
       "32 questions of 1024 tokens, 64 candidates of 64 each",
       {Group(32, 64, 1'024, 64)}},
      {"deep",
       "1 question of 256 tokens, a binary tree of 7 levels of 16: 128 candidates",
       {BinaryTree(7, 16, 256)}},
      {"unshared", "64 questions of 100 tokens, 1 candidate of 16 each", {Group(64, 1, 100, 16)}},
      {"tiny", "1 question of 12 tokens, 4 candidates of 4", {Group(1, 4, 12, 4)}},
  };
  return *shapes;
}

absl::StatusOr<Shape> ParseShape(absl::string_view text) {
  for (const Shape& shape : NamedShapes()) {
    if (shape.name == text) {
      return shape;
    }
  }
  QuestionGroup group;
  if (ParseSizes(text, &group)) {
    return Shape{std::string(text), "as given", {group}};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a shape: ",
      absl::StrJoin(NamedShapes(), ", ",
                    [](std::string* out, const Shape& shape) { absl::StrAppend(out, shape.name); }),
      ", or QUESTIONSxCANDIDATES:PREFIX+TOKENS, as 4x8:100+16"));
}

absl::StatusOr<std::vector<WeightedShape>> ParseMix(absl::string_view text) {
  std::vector<WeightedShape> mix;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    absl::StatusOr<Shape> shape = ParseShape(part.substr(0, equals));
    if (!shape.ok()) {
      return shape.status();
    }
    WeightedShape weighted;
    weighted.shape = *std::move(shape);
    if (equals != absl::string_view::npos &&
        (!absl::SimpleAtod(part.substr(equals + 1), &weighted.weight) || !(weighted.weight > 0) ||
         std::isinf(weighted.weight))) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "': the weight must be a number above 0"));
    }
    mix.push_back(std::move(weighted));
  }
  return mix;
}

int64_t MaxPathTokens(const Shape& shape) {
  int64_t longest = 0;
  for (const QuestionGroup& group : shape.groups) {
    longest = std::max(
        longest, int64_t{group.state_tokens} + group.question_tokens + group.candidate_tokens);
  }
  return longest;
}

void AddQuestions(const Shape& shape, uint64_t vocab_size, std::mt19937_64* random,
                  v1::ScoreRequest* request) {
  for (const QuestionGroup& group : shape.groups) {
    for (int state = 0; state < group.states; ++state) {
      std::mt19937_64 common(kCommonSeed);
      const Tokens state_tokens =
          Draw(group.state_tokens, vocab_size, group.common_state ? &common : random);
      for (int q = 0; q < group.questions_per_state; ++q) {
        v1::Question* question = request->add_questions();
        question->set_id(absl::StrCat("q", request->questions_size() - 1));
        Append(state_tokens, question->mutable_prefix());
        Append(Draw(group.question_tokens, vocab_size, random), question->mutable_prefix());
        for (const Tokens& tokens : DrawCandidates(group, vocab_size, random)) {
          v1::Candidate* candidate = question->add_candidates();
          candidate->set_id(absl::StrCat("c", question->candidates_size() - 1));
          Append(tokens, candidate->mutable_tokens());
        }
      }
    }
  }
}

}  // namespace canopy::client
