#include "core/tree/testing/random_batch.h"

#include <numeric>
#include <utility>

namespace canopy::testing {
namespace {

using Tokens = std::vector<int32_t>;

int32_t Uniform(std::mt19937_64& random, int32_t first, int32_t last) {
  return std::uniform_int_distribution<int32_t>(first, last)(random);
}

Tokens RandomTokens(std::mt19937_64& random, int32_t size, int32_t num_distinct) {
  Tokens tokens(size);
  for (int32_t& token : tokens) {
    token = Uniform(random, 0, num_distinct - 1);
  }
  return tokens;
}

Tokens RandomSuffix(std::mt19937_64& random, const std::vector<Tokens>& others,
                    int32_t num_distinct, int32_t min_size) {
  enum { kDuplicate, kInside, kBehind, kFresh };
  const int32_t kind = others.empty() ? kFresh : Uniform(random, kDuplicate, kFresh + 2);
  if (kind >= kFresh) {
    return RandomTokens(random, Uniform(random, min_size, 12), num_distinct);
  }
  Tokens tokens = others[Uniform(random, 0, static_cast<int32_t>(others.size()) - 1)];
  if (kind == kInside) {
    tokens.resize(Uniform(random, min_size, static_cast<int32_t>(tokens.size())));
  } else if (kind == kBehind) {
    const Tokens more = RandomTokens(random, Uniform(random, 1, 6), num_distinct);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

Tokens Range(int32_t first, int32_t size) {
  Tokens tokens(size);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

PathBatch OneQuestion(const Tokens& prefix, const std::vector<Tokens>& suffixes) {
  PathBatch batch;
  batch.AddQuestion(prefix, suffixes);
  return batch;
}

// Returns candidates that follow one common path; each leaves it one token later than the one
// before.
std::vector<Tokens> Comb(int32_t size) {
  std::vector<Tokens> suffixes;
  for (int32_t i = 0; i < size; ++i) {
    Tokens tokens = Range(0, i + 1);
    tokens.back() = -1;
    suffixes.push_back(std::move(tokens));
  }
  return suffixes;
}

}  // namespace

PathBatch RandomBatch(std::mt19937_64& random) {
  PathBatch batch;
  const int32_t num_questions = Uniform(random, 1, 6);
  const int32_t num_distinct = Uniform(random, 1, 5);
  for (int32_t question = 0; question < num_questions; ++question) {
    const bool has_prefix = Uniform(random, 0, 2) > 0;
    const Tokens prefix =
        RandomTokens(random, has_prefix ? Uniform(random, 1, 20) : 0, num_distinct);
    std::vector<Tokens> suffixes;
    const int32_t num_candidates = Uniform(random, 1, 12);
    suffixes.reserve(num_candidates);
    for (int32_t candidate = 0; candidate < num_candidates; ++candidate) {
      suffixes.push_back(RandomSuffix(random, suffixes, num_distinct, has_prefix ? 0 : 1));
    }
    batch.AddQuestion(prefix, suffixes);
  }
  return batch;
}

std::vector<NamedBatch> NamedBatches() {
  std::vector<NamedBatch> batches;
  batches.push_back({"OneToken", OneQuestion({}, {{7}})});
  batches.push_back({"Duplicates", OneQuestion({1, 2}, {{3, 4}, {3, 4}, {5}, {3, 4}})});
  batches.push_back({"PathInsideAnother", OneQuestion({}, {{1, 2, 3}, {1, 2}, {1}, {1, 2, 3, 4}})});
  batches.push_back({"SeveralRoots", OneQuestion({}, {{1, 2}, {2, 1}, {3}, {1, 3}})});
  batches.push_back({"EmptyPrefix", OneQuestion({}, {{4, 5}, {4, 6}})});
  batches.push_back({"CandidateIsWholePrefix", OneQuestion({1, 2, 3}, {{}, {4}, {}})});
  batches.push_back({"OnlyThePrefix", OneQuestion({1, 2, 3}, {{}})});
  batches.push_back({"LongestFirst", OneQuestion({9}, {{1, 2, 3, 4, 5}, {1, 2, 3}, {1, 7}, {}})});
  batches.push_back({"Comb", OneQuestion({}, Comb(40))});

  std::vector<Tokens> reversed_comb = Comb(40);
  reversed_comb = {reversed_comb.rbegin(), reversed_comb.rend()};
  batches.push_back({"ReversedComb", OneQuestion({8}, reversed_comb)});

  std::vector<Tokens> many;
  many.reserve(255);
  for (int32_t i = 0; i < 255; ++i) {
    many.push_back({i % 17, i / 17, i});
  }
  batches.push_back({"Candidates255", OneQuestion(Range(100, 33), many)});

  PathBatch skewed = OneQuestion(Range(0, 129), {Range(5, 113), {1}, {2}});
  skewed.AddQuestion({}, {{1}});
  skewed.AddQuestion({3}, {{1}, {2}});
  skewed.AddQuestion(Range(0, 2), many);
  batches.push_back({"SkewedSizes", std::move(skewed)});

  PathBatch equal = OneQuestion({1, 2}, {{3}, {4}});
  equal.AddQuestion({1, 2}, {{3}, {4}});
  batches.push_back({"EqualQuestions", std::move(equal)});
  return batches;
}

}  // namespace canopy::testing
