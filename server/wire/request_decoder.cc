#include "server/wire/request_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/utf8.h"
#include "canopy/v1/scorer.pb.h"
#include "server/wire/kind_rules.h"

#ifndef ABSL_IS_LITTLE_ENDIAN
#error "TokenIds.raw and raw64 are copied as they stand: they need a little-endian host"
#endif

namespace canopy::server {
namespace {

using Question = v1::Question;
using Candidate = v1::Candidate;
using TokenIds = v1::TokenIds;

constexpr size_t kMinSuspiciousBytes = 8 * sizeof(int32_t);

// A TokenIds that may arrive in several pieces: their `ids` are concatenated, and the last `raw`
// and `raw64` are used.
struct TokenPieces {
  int64_t begin = 0;  // the position of the ids in PathBatch::tokens
  absl::string_view raw;
  absl::string_view raw64;
};

// Returns the names of the forms that a TokenIds sets; there are at least two.
std::string SetFormsText(bool has_ids, const TokenPieces& pieces) {
  if (has_ids && !pieces.raw.empty() && !pieces.raw64.empty()) {
    return "ids, raw and raw64 are all set";
  }
  return absl::StrCat(has_ids ? "ids" : "raw", " and ", pieces.raw64.empty() ? "raw" : "raw64",
                      " are both set");
}

struct FinishedTokens {
  TokenSpan span;
  bool complete = true;  // false: the tokens were refused, so their number means nothing
};

class QuestionDecoder {
 public:
  QuestionDecoder(absl::string_view message, const TokenLimits& limits, Violations* violations)
      : message_(message), limits_(limits), violations_(violations) {}

  void Reserve(const RequestCounts& counts) {
    const auto questions = static_cast<size_t>(counts.questions);
    const auto paths = static_cast<size_t>(counts.paths);
    decoded_.batch.tokens.reserve(static_cast<size_t>(counts.tokens));
    decoded_.batch.prefixes.reserve(questions);
    decoded_.batch.question_offsets.reserve(questions + 1);
    decoded_.batch.suffixes.reserve(paths);
    decoded_.question_ids.reserve(questions);
    decoded_.kinds.reserve(questions);
    decoded_.candidate_ids.reserve(paths);
    decoded_.batch.question_offsets.push_back(0);
  }

  // Returns false if the bytes are malformed.
  bool AddQuestion(const WireReader& reader) {
    violations_before_ = violations_->list().size();
    // Fields may come in any order: the first pass reads the prefix and the others, the second the
    // candidates.
    return ReadOwnFields(reader) && ReadCandidates(reader) && CloseQuestion();
  }

  DecodedQuestions Take() { return std::move(decoded_); }

 private:
  bool ReadOwnFields(WireReader reader) {
    TextSpan id;
    TokenPieces prefix = BeginTokens();
    kind_ = 0;
    num_candidates_ = 0;
    for (WireField field; reader.Next(&field);) {
      bool ok = true;
      if (field.IsBytes(Question::kIdFieldNumber)) {
        ok = SetText(field.bytes, &id);
      } else if (field.IsBytes(Question::kPrefixFieldNumber)) {
        ok = AddTokens(reader.Nested(field), &prefix);
      } else if (field.IsVarint(Question::kKindFieldNumber)) {
        kind_ = static_cast<int32_t>(field.varint);
      } else if (field.IsBytes(Question::kCandidatesFieldNumber)) {
        ++num_candidates_;
      }
      if (!ok) {
        return false;
      }
    }
    decoded_.question_ids.push_back(id);
    const FinishedTokens finished = FinishTokens(prefix, ".prefix");
    decoded_.batch.prefixes.push_back(finished.span);
    prefix_complete_ = finished.complete;
    return !reader.malformed();
  }

  // Reads the candidates only. ReadOwnFields has read all other fields, also those after the last
  // candidate.
  bool ReadCandidates(WireReader reader) {
    candidate_ = 0;
    for (WireField field;
         candidate_ < num_candidates_ && !violations_->full() && reader.Next(&field);) {
      if (field.IsBytes(Question::kCandidatesFieldNumber)) {
        if (!ReadCandidate(reader.Nested(field))) {
          return false;
        }
        ++candidate_;
      }
    }
    return !reader.malformed();
  }

  bool ReadCandidate(WireReader reader) {
    TextSpan id;
    TokenPieces tokens = BeginTokens();
    for (WireField field; reader.Next(&field);) {
      bool ok = true;
      if (field.IsBytes(Candidate::kIdFieldNumber)) {
        ok = SetText(field.bytes, &id);
      } else if (field.IsBytes(Candidate::kTokensFieldNumber)) {
        ok = AddTokens(reader.Nested(field), &tokens);
      }
      if (!ok) {
        return false;
      }
    }
    if (reader.malformed()) {
      return false;
    }
    decoded_.candidate_ids.push_back(id);
    const FinishedTokens finished = FinishTokens(tokens, kCandidateTokens);
    decoded_.batch.suffixes.push_back(finished.span);
    if (prefix_complete_ && finished.complete) {
      CheckPathLength();
    }
    return true;
  }

  bool CloseQuestion() {
    if (candidate_ == 0 && !violations_->full()) {
      Violate(".candidates", "a question needs at least one candidate");
    }
    if (!v1::QuestionKind_IsValid(kind_)) {
      Violate(".kind", absl::StrCat("unknown value ", kind_));
    }
    decoded_.kinds.push_back(kind_);
    decoded_.batch.question_offsets.push_back(decoded_.batch.num_paths());
    // If the question is already wrong, some of its candidates may not have been read.
    if (violations_->list().size() == violations_before_) {
      if (const auto broken = FindKindViolation(kind_, decoded_.batch, question_)) {
        violations_->Add(absl::StrCat("questions[", question_, "]", broken->field),
                         broken->description);
      }
    }
    ++question_;
    return true;
  }

  TokenPieces BeginTokens() const {
    return {static_cast<int64_t>(decoded_.batch.tokens.size()), {}, {}};
  }

  // Single tokens are collected first, because adding them to the vector one by one is slower.
  bool AddTokens(WireReader reader, TokenPieces* pieces) {
    std::vector<int32_t>& tokens = decoded_.batch.tokens;
    std::array<int32_t, 64> single;
    size_t num_single = 0;
    const auto flush = [&] {
      tokens.insert(tokens.end(), single.begin(), single.begin() + num_single);
      num_single = 0;
    };
    for (WireField field; reader.Next(&field);) {
      if (field.IsVarint(TokenIds::kIdsFieldNumber)) {
        single[num_single++] = static_cast<int32_t>(field.varint);
      } else if (field.IsBytes(TokenIds::kIdsFieldNumber)) {
        if (field.bytes.size() == 1 && static_cast<signed char>(field.bytes[0]) >= 0) {
          single[num_single++] = static_cast<unsigned char>(field.bytes[0]);
        } else {
          flush();
          if (!AddPacked(field.bytes)) {
            return false;
          }
        }
      } else if (field.IsBytes(TokenIds::kRawFieldNumber)) {
        pieces->raw = field.bytes;
      } else if (field.IsBytes(TokenIds::kRaw64FieldNumber)) {
        pieces->raw64 = field.bytes;
      }
      if (num_single == single.size()) {
        flush();
      }
    }
    flush();
    return !reader.malformed();
  }

  bool AddPacked(absl::string_view packed) {
    std::vector<int32_t>& tokens = decoded_.batch.tokens;
    const size_t begin = tokens.size();
    tokens.resize(begin + static_cast<size_t>(CountVarints(packed)));
    return ReadPackedVarints(packed, tokens.data() + begin);
  }

  FinishedTokens FinishTokens(const TokenPieces& pieces, absl::string_view field) {
    std::vector<int32_t>& tokens = decoded_.batch.tokens;
    const auto begin = static_cast<size_t>(pieces.begin);
    const bool has_ids = tokens.size() > begin;
    FinishedTokens finished;
    if ((has_ids ? 1 : 0) + (pieces.raw.empty() ? 0 : 1) + (pieces.raw64.empty() ? 0 : 1) > 1) {
      Violate(field, SetFormsText(has_ids, pieces));
      finished.complete = false;
    } else if (!pieces.raw.empty()) {
      finished.complete = AddRaw(pieces.raw, field);
    } else if (!pieces.raw64.empty()) {
      finished.complete = AddRaw64(pieces.raw64, field);
    }
    finished.span = {pieces.begin, static_cast<int32_t>(tokens.size() - begin)};
    if (pieces.raw64.empty()) {
      CheckVocabulary(finished.span, field);
    }
    return finished;
  }

  // Returns false, after adding a violation, if the bytes are not a whole number of values of
  // `size` bytes.
  bool CheckRawSize(absl::string_view bytes, size_t size, const std::string& field) {
    if (bytes.size() % size != 0) {
      Violate(field, absl::StrCat(bytes.size(), " bytes are not a multiple of ", size));
      return false;
    }
    return true;
  }

  bool AddRaw(absl::string_view raw, absl::string_view field) {
    if (!CheckRawSize(raw, sizeof(int32_t), absl::StrCat(field, ".raw"))) {
      return false;
    }
    std::vector<int32_t>& tokens = decoded_.batch.tokens;
    const size_t begin = tokens.size();
    tokens.resize(begin + raw.size() / sizeof(int32_t));
    std::memcpy(&tokens[begin], raw.data(), raw.size());
    if (LooksLikeInt64(raw) && decoded_.suspicious_raw.empty()) {
      decoded_.suspicious_raw = absl::StrCat(PlaceOf(field), ".raw");
    }
    return true;
  }

  // Checks the tokens against the vocabulary before they are narrowed, because narrowing could make
  // a wrong token valid.
  bool AddRaw64(absl::string_view raw64, absl::string_view field) {
    if (!CheckRawSize(raw64, sizeof(int64_t), absl::StrCat(field, ".raw64"))) {
      return false;
    }
    std::vector<int32_t>& tokens = decoded_.batch.tokens;
    const size_t begin = tokens.size();
    const size_t count = raw64.size() / sizeof(int64_t);
    tokens.resize(begin + count);
    // As unsigned numbers, negative tokens are large.
    uint64_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t token = Raw64At(raw64, i);
      largest = std::max(largest, token);
      tokens[begin + i] = static_cast<int32_t>(token);
    }
    if (IsToken(largest)) {
      return true;
    }
    size_t first = 0;
    while (IsToken(Raw64At(raw64, first))) {
      ++first;
    }
    ViolateVocabulary(field, static_cast<int64_t>(Raw64At(raw64, first)), first);
    return true;
  }

  static uint64_t Raw64At(absl::string_view raw64, size_t index) {
    uint64_t token = 0;
    std::memcpy(&token, raw64.data() + index * sizeof(token), sizeof(token));
    return token;
  }

  bool IsToken(uint64_t token) const {
    return token <= std::numeric_limits<int32_t>::max() &&
           static_cast<int64_t>(token) < limits_.vocab_size;
  }

  // The client is told the token; the log does not contain it.
  void ViolateVocabulary(absl::string_view field, int64_t token, size_t index) {
    const std::string what =
        absl::StrCat(" at index ", index, " is outside the vocabulary of ", limits_.vocab_size);
    Violate(field, absl::StrCat("token ", token, what), absl::StrCat("a token", what));
  }

  void CheckVocabulary(const TokenSpan& span, absl::string_view field) {
    const absl::Span<const int32_t> tokens = decoded_.batch.Tokens(span);
    // As unsigned numbers, negative tokens are large.
    uint32_t largest = 0;
    for (const int32_t token : tokens) {
      largest = std::max(largest, static_cast<uint32_t>(token));
    }
    if (largest < limits_.vocab_size || tokens.empty()) {
      return;
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (static_cast<uint32_t>(tokens[i]) >= limits_.vocab_size) {
        ViolateVocabulary(field, tokens[i], i);
        return;
      }
    }
  }

  void CheckPathLength() {
    const PathBatch& batch = decoded_.batch;
    const int64_t length = batch.PathLength(question_, batch.num_paths() - 1);
    if (length > limits_.max_path_tokens) {
      Violate(kCandidateTokens,
              absl::StrCat(length, " tokens exceed max_path_tokens ", limits_.max_path_tokens));
    } else if (length == 0) {
      Violate(kCandidateTokens, "the path is empty: neither prefix nor tokens hold a token");
    }
  }

  bool SetText(absl::string_view bytes, TextSpan* text) const {
    text->begin = static_cast<uint32_t>(bytes.data() - message_.data());
    text->size = static_cast<uint32_t>(bytes.size());
    return IsValidUtf8(bytes);
  }

  // `field` is relative to the current question, or to the current candidate for kCandidateTokens.
  // `log_description` is that of Violation.
  void Violate(absl::string_view field, std::string description, std::string log_description = "") {
    if (violations_->full()) {
      return;
    }
    violations_->Add(PlaceOf(field), std::move(description), std::move(log_description));
  }

  std::string PlaceOf(absl::string_view field) const {
    std::string place = absl::StrCat("questions[", question_, "]");
    if (absl::StartsWith(field, kCandidateTokens)) {
      absl::StrAppend(&place, ".candidates[", candidate_, "]");
    }
    absl::StrAppend(&place, field);
    return place;
  }

  static constexpr absl::string_view kCandidateTokens = ".tokens";

  const absl::string_view message_;
  const TokenLimits limits_;
  Violations* const violations_;
  DecodedQuestions decoded_;
  size_t violations_before_ = 0;  // before the current question
  int32_t question_ = 0;
  int32_t candidate_ = 0;
  int32_t num_candidates_ = 0;
  int32_t kind_ = 0;
  bool prefix_complete_ = true;
};

}  // namespace

bool LooksLikeInt64(absl::string_view raw) {
  if (raw.size() < kMinSuspiciousBytes || raw.size() % sizeof(int64_t) != 0) {
    return false;
  }
  uint32_t any_low_bits = 0;
  for (size_t at = 0; at < raw.size(); at += sizeof(int64_t)) {
    uint32_t halves[2];
    std::memcpy(halves, raw.data() + at, sizeof(halves));
    if (halves[1] != 0) {
      return false;
    }
    any_low_bits |= halves[0];
  }
  return any_low_bits != 0;
}

absl::StatusOr<DecodedQuestions> DecodeQuestions(absl::string_view message,
                                                 const RequestCounts& counts,
                                                 const TokenLimits& limits,
                                                 Violations* violations) {
  QuestionDecoder decoder(message, limits, violations);
  decoder.Reserve(counts);
  WireReader reader(message);
  int64_t question = 0;
  for (WireField field; !violations->full() && reader.Next(&field);) {
    if (field.IsBytes(v1::ScoreRequest::kQuestionsFieldNumber)) {
      if (!decoder.AddQuestion(reader.Nested(field))) {
        return MalformedRequestError(absl::StrCat("questions[", question, "]"));
      }
      ++question;
    }
  }
  return decoder.Take();
}

}  // namespace canopy::server
