// The table of outputs, with one row for each output that a request can ask for. The checks of
// heads, the share key, the sizes, the copy to the host, the merge of parts, the entries for paths
// that lack an output and the encoding of answers all iterate over this table. docs/OUTPUTS.md,
// "Adding an output", says how to add a row.
#ifndef CORE_TREE_OUTPUTS_H_
#define CORE_TREE_OUTPUTS_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/tree/token_reads.h"

namespace canopy {

// The element types of the vectors in an answer, little-endian.
enum class VectorType { kFloat32, kBFloat16, kFloat16 };

inline int64_t VectorTypeBytes(VectorType type) { return type == VectorType::kFloat32 ? 4 : 2; }

// The outputs in the order of their fields in canopy.v1.Outputs. kEnd stays last.
enum class Output : uint8_t {
  kVectors,
  kScores,
  kProbabilities,
  kTokenLogprobs,
  kEntropy,
  kVocabRange,
  kValues,
  kTopLogprobs,
  kTokenRanks,
  kEnd,
};
inline constexpr auto kNumOutputs = static_cast<size_t>(Output::kEnd);

// A set of outputs, one bit each.
using OutputSet = uint16_t;
static_assert(kNumOutputs <= std::numeric_limits<OutputSet>::digits);

constexpr OutputSet BitOf(Output output) {
  return static_cast<OutputSet>(1U << static_cast<unsigned>(output));
}

// The options that affect how outputs are computed. Every option is part of the share key, and
// core/engine/job_estimate.cc does not compile until a new option is added to it.
struct OutputOptions {
  VectorType vector_type = VectorType::kFloat32;
  bool normalize = false;                     // vectors of L2 norm 1
  TokenScope scope = TokenScope::kCandidate;  // applies to the per-token outputs
  float temperature = 1;                      // for log-probs and entropy; its inverse is finite
};

// The outputs to compute for each path.
struct OutputSelection : OutputOptions {
  bool vectors = false;
  bool scores = false;
  // The vectors that ModelRunner::Decide reads. Only the engine requests them.
  bool endpoints = false;

  // Outputs with a number for each token in scope.
  bool token_logprobs = false;
  bool entropy = false;
  bool vocab_range = false;  // smallest and largest raw logit
  int32_t top_logprobs = 0;  // most likely tokens at each position; 0 = none
  bool values = false;       // a one-label head at every token
  bool token_ranks = false;  // 1 = the most likely token of the distribution

  // Returns true if a selected output reads the distribution that predicts a token.
  bool distributions() const;
};

// Values read from the distributions of scored tokens. A list that was not requested is empty.
struct TokenOutputs {
  TokenEntries entries;
  std::vector<float> logprobs;      // [entries], log-probability of the token itself
  std::vector<float> entropy;       // [entries], in nats
  std::vector<float> min_logit;     // [entries], raw logit
  std::vector<float> max_logit;     // [entries], raw logit
  std::vector<int32_t> top_ids;     // [entries, top_logprobs], best first; the lower id wins a tie
  std::vector<float> top_logprobs;  // [entries, top_logprobs]
  // [entries], rank of the token itself, from 1; the lower id wins a tie
  std::vector<int32_t> ranks;
};

// The value of each token in scope, including the path's first token.
struct ValueOutputs {
  TokenEntries entries;
  std::vector<float> values;  // [entries]
};

// The part of a model that an output needs.
enum class OutputHead {
  kNone,           // the decoder alone
  kScoring,        // a head that gives each candidate one or more scores
  kOneScore,       // a head that gives each candidate one score
  kLanguageModel,  // a distribution over the vocabulary at each token
  kValue,          // a head that gives each token one number
};

// The unit that an output has one entry for.
enum class OutputUnit {
  kCandidate,
  kScoredToken,  // each token in scope that has a distribution before it
  kToken,        // each token in scope
};

struct OutputSpec {
  Output output;
  absl::string_view name;  // the name of its field in canopy.v1.Outputs
  OutputHead head;
  OutputUnit unit;
  // The output that the engine computes for this one: itself, or the output that it derives from.
  Output computed;
  // The member of OutputSelection that requests this output. `flag` is set for an output with one
  // number per entry of a list; `count` is set for an output whose caller chooses how many. Both
  // are null if the engine derives this output from another one.
  bool OutputSelection::*flag;
  int32_t OutputSelection::*count;
};

inline constexpr std::array<OutputSpec, kNumOutputs> kOutputs = {{
    {Output::kVectors, "vectors", OutputHead::kNone, OutputUnit::kCandidate, Output::kVectors,
     &OutputSelection::vectors, nullptr},
    {Output::kScores, "scores", OutputHead::kScoring, OutputUnit::kCandidate, Output::kScores,
     &OutputSelection::scores, nullptr},
    {Output::kProbabilities, "probabilities", OutputHead::kOneScore, OutputUnit::kCandidate,
     Output::kScores, nullptr, nullptr},
    {Output::kTokenLogprobs, "token_logprobs", OutputHead::kLanguageModel, OutputUnit::kScoredToken,
     Output::kTokenLogprobs, &OutputSelection::token_logprobs, nullptr},
    {Output::kEntropy, "entropy", OutputHead::kLanguageModel, OutputUnit::kScoredToken,
     Output::kEntropy, &OutputSelection::entropy, nullptr},
    {Output::kVocabRange, "vocab_range", OutputHead::kLanguageModel, OutputUnit::kScoredToken,
     Output::kVocabRange, &OutputSelection::vocab_range, nullptr},
    {Output::kValues, "values", OutputHead::kValue, OutputUnit::kToken, Output::kValues,
     &OutputSelection::values, nullptr},
    {Output::kTopLogprobs, "top_logprobs", OutputHead::kLanguageModel, OutputUnit::kScoredToken,
     Output::kTopLogprobs, nullptr, &OutputSelection::top_logprobs},
    {Output::kTokenRanks, "token_ranks", OutputHead::kLanguageModel, OutputUnit::kScoredToken,
     Output::kTokenRanks, &OutputSelection::token_ranks, nullptr},
}};

constexpr const OutputSpec& SpecOf(Output output) { return kOutputs[static_cast<size_t>(output)]; }

// Returns 0 if the output is not requested, else the number of values per entry of its lists.
constexpr int32_t AmountOf(const OutputSelection& selection, Output output) {
  const OutputSpec& spec = SpecOf(output);
  return spec.flag != nullptr    ? static_cast<int32_t>(selection.*spec.flag)
         : spec.count != nullptr ? selection.*spec.count
                                 : 0;
}

// Requests an output that the engine computes. If it has a flag, sets the flag to `amount` != 0.
constexpr void Ask(Output output, int32_t amount, OutputSelection* selection) {
  const OutputSpec& spec = SpecOf(output);
  if (spec.flag != nullptr) {
    selection->*spec.flag = amount != 0;
  } else if (spec.count != nullptr) {
    selection->*spec.count = amount;
  }
}

// Returns the outputs that `selection` requests.
constexpr OutputSet AskedOutputs(const OutputSelection& selection) {
  OutputSet asked = 0;
  for (const OutputSpec& spec : kOutputs) {
    if (AmountOf(selection, spec.output) != 0) {
      asked |= BitOf(spec.output);
    }
  }
  return asked;
}

inline bool OutputSelection::distributions() const {
  bool any = false;
  for (const OutputSpec& spec : kOutputs) {
    any = any || (spec.unit == OutputUnit::kScoredToken && AmountOf(*this, spec.output) != 0);
  }
  return any;
}

// The source of the number that an entry of a list holds.
enum class ListSource {
  kTarget,        // the entry's token in its distribution
  kDistribution,  // the distribution as a whole
  kToken,         // the token's own hidden state
};

// A list with an equal number of elements for each token. `Owner` is TokenOutputs or ValueOutputs;
// the list has the entries of its owner.
template <typename Owner, typename T>
struct ListSpec {
  using Element = T;
  static constexpr bool kOfDistributions = std::is_same_v<Owner, TokenOutputs>;

  Output output;
  const char* name;         // the list's name in messages about a faulty runner
  absl::string_view field;  // the field of CandidateResult; empty = has its own encoding code
  ListSource source;
  std::vector<T> Owner::*list;

  // `result` is a PartOutput or a ScoreResult.
  template <typename Result>
  auto& EntriesIn(Result& result) const {
    return OwnerIn(result).entries;
  }
  template <typename Result>
  auto& ListIn(Result& result) const {
    return OwnerIn(result).*list;
  }

 private:
  template <typename Result>
  static auto& OwnerIn(Result& result) {
    if constexpr (kOfDistributions) {
      return result.tokens;
    } else {
      return result.values;
    }
  }
};

// Every list of TokenOutputs and of ValueOutputs.
inline constexpr std::tuple kLists = {
    ListSpec<TokenOutputs, float>{Output::kTokenLogprobs, "tokens.logprobs", "token_logprobs",
                                  ListSource::kTarget, &TokenOutputs::logprobs},
    ListSpec<TokenOutputs, float>{Output::kEntropy, "tokens.entropy", "entropy",
                                  ListSource::kDistribution, &TokenOutputs::entropy},
    ListSpec<TokenOutputs, float>{Output::kVocabRange, "tokens.min_logit", "min_logit",
                                  ListSource::kDistribution, &TokenOutputs::min_logit},
    ListSpec<TokenOutputs, float>{Output::kVocabRange, "tokens.max_logit", "max_logit",
                                  ListSource::kDistribution, &TokenOutputs::max_logit},
    ListSpec<TokenOutputs, int32_t>{Output::kTopLogprobs, "tokens.top_ids", "",
                                    ListSource::kDistribution, &TokenOutputs::top_ids},
    ListSpec<TokenOutputs, float>{Output::kTopLogprobs, "tokens.top_logprobs", "",
                                  ListSource::kDistribution, &TokenOutputs::top_logprobs},
    ListSpec<TokenOutputs, int32_t>{Output::kTokenRanks, "tokens.ranks", "token_ranks",
                                    ListSource::kTarget, &TokenOutputs::ranks},
    ListSpec<ValueOutputs, float>{Output::kValues, "values.values", "values", ListSource::kToken,
                                  &ValueOutputs::values},
};

// Calls visit(spec) for each row of kLists.
template <typename Visit>
constexpr void ForEachList(Visit visit) {
  std::apply([&visit](const auto&... spec) { (visit(spec), ...); }, kLists);
}

// Calls visit(spec) for the lists of TokenOutputs only.
template <typename Visit>
constexpr void ForEachDistributionList(Visit visit) {
  ForEachList([&visit](const auto& spec) {
    if constexpr (std::decay_t<decltype(spec)>::kOfDistributions) {
      visit(spec);
    }
  });
}

constexpr size_t CountDistributionLists() {
  size_t count = 0;
  ForEachDistributionList([&count](const auto& /*spec*/) { ++count; });
  return count;
}
inline constexpr size_t kNumDistributionLists = CountDistributionLists();

// The value of the entries of a path that lacks the output.
template <typename T>
inline constexpr T kUnscored = -1;
template <>
inline constexpr float kUnscored<float> = std::numeric_limits<float>::quiet_NaN();

// Returns false if the number marks a path that lacks the output.
inline bool IsScored(float number) { return std::isfinite(number); }
inline bool IsScored(int32_t number) { return number != kUnscored<int32_t>; }

// Returns the bytes of one entry summed over all lists of a per-token output.
constexpr int64_t ListBytes(const OutputSelection& selection, Output output) {
  int64_t bytes = 0;
  ForEachList([&](const auto& spec) {
    if (spec.output == output) {
      bytes += AmountOf(selection, output) *
               static_cast<int64_t>(sizeof(typename std::decay_t<decltype(spec)>::Element));
    }
  });
  return bytes;
}

namespace outputs_internal {

constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kNumOutputs; ++i) {
    if (static_cast<size_t>(kOutputs[i].output) != i) {
      return false;
    }
  }
  return true;
}

// Returns true if exactly the per-token outputs have lists.
constexpr bool ListsFitOutputs() {
  OutputSet listed = 0;
  ForEachList([&listed](const auto& spec) { listed |= BitOf(spec.output); });
  OutputSet wanted = 0;
  for (const OutputSpec& spec : kOutputs) {
    if (spec.unit != OutputUnit::kCandidate) {
      wanted |= BitOf(spec.output);
    }
  }
  return listed == wanted;
}

static_assert(RowsAreInOrder(), "kOutputs needs a row for each Output, in the enum's order");
static_assert(ListsFitOutputs(), "kLists needs the lists of each per-token output");
static_assert(sizeof(TokenOutputs) ==
                  sizeof(TokenEntries) + kNumDistributionLists * sizeof(std::vector<float>),
              "kLists needs a row for each list of TokenOutputs");
static_assert(sizeof(ValueOutputs) == sizeof(TokenEntries) + (std::tuple_size_v<decltype(kLists)> -
                                                              kNumDistributionLists) *
                                                                 sizeof(std::vector<float>),
              "kLists needs a row for each list of ValueOutputs");

}  // namespace outputs_internal
}  // namespace canopy

#endif  // CORE_TREE_OUTPUTS_H_
