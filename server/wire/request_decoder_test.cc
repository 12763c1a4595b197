// Compares the two decoding passes with protobuf's own parser, on random requests and with random
// damage to them.
#include "server/wire/request_decoder.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "canopy/v1/scorer.pb.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

constexpr uint32_t kSeed = 20'261'130;
constexpr int kRounds = 20'000;
constexpr TokenLimits kLimits = {1'000, 12};

class RandomRequest {
 public:
  explicit RandomRequest(uint32_t seed) : random_(seed) {}

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  bool Chance(int one_in) { return Below(one_in) == 0; }

  v1::ScoreRequest Make() {
    v1::ScoreRequest request;
    request.set_request_id(Text());
    request.set_model(Text());
    for (int i = Below(4); i > 0; --i) {
      FillQuestion(request.add_questions());
    }
    if (Chance(2)) {
      FillOutputs(request.mutable_outputs());
    }
    if (Chance(2)) {
      FillRouting(request.mutable_routing());
    }
    request.set_priority(static_cast<v1::Priority>(Below(3)));
    request.set_min_model_version(Chance(2) ? 0 : random_());
    request.set_vocabulary_hash(Text());
    return request;
  }

  // Changes, inserts, removes or doubles some bytes.
  void Damage(std::string* bytes) {
    for (int i = 1 + Below(3); i > 0 && !bytes->empty(); --i) {
      const auto at = static_cast<size_t>(Below(static_cast<int>(bytes->size())));
      const auto size = static_cast<size_t>(Below(8));
      switch (Below(5)) {
        case 0:
          (*bytes)[at] = static_cast<char>(random_());
          break;
        case 1:
          (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
          break;
        case 2:
          bytes->insert(at, 1, static_cast<char>(random_()));
          break;
        case 3:
          bytes->erase(at, size);
          break;
        default:
          bytes->insert(at, bytes->substr(at, size));
          break;
      }
    }
  }

 private:
  std::string Text() {
    static const char* const kTexts[] = {"", "", "a", "\u00e9", "id-7", "\U0001f600"};
    return kTexts[Below(6)];
  }

  void FillTokens(v1::TokenIds* tokens) {
    if (Chance(12)) {
      tokens->set_raw(std::string(static_cast<size_t>(Below(10)), '\1'));
    } else if (Chance(4)) {
      std::string raw;
      for (int i = Below(6); i > 0; --i) {
        const int32_t token = Token();
        raw.append(reinterpret_cast<const char*>(&token), sizeof(token));
      }
      tokens->set_raw(raw);
    }
    if (Chance(12)) {
      tokens->set_raw64(std::string(static_cast<size_t>(Below(18)), '\1'));
    } else if (Chance(4) && (tokens->raw().empty() || Chance(4))) {
      std::string raw64;
      for (int i = Below(6); i > 0; --i) {
        // Some tokens are valid only after narrowing.
        const int64_t token = Token() + (Chance(30) ? int64_t{1} << (32 + Below(31)) : 0);
        raw64.append(reinterpret_cast<const char*>(&token), sizeof(token));
      }
      tokens->set_raw64(raw64);
    }
    if ((tokens->raw().empty() && tokens->raw64().empty()) || Chance(12)) {
      for (int i = Below(8); i > 0; --i) {
        tokens->add_ids(static_cast<uint32_t>(Token()));
      }
    }
  }

  int32_t Token() {
    return Chance(40) ? static_cast<int32_t>(random_()) : Below(1'000 + (Chance(20) ? 10 : 0));
  }

  void FillQuestion(v1::Question* question) {
    question->set_id(Text());
    if (Chance(2)) {
      FillTokens(question->mutable_prefix());
    }
    for (int i = Below(8); i > 0; --i) {
      v1::Candidate* candidate = question->add_candidates();
      candidate->set_id(Text());
      FillTokens(candidate->mutable_tokens());
    }
    question->set_kind(static_cast<v1::QuestionKind>(Chance(8) ? Below(6) : 0));
  }

  void FillOutputs(v1::Outputs* outputs) {
    outputs->set_vectors(Chance(2));
    outputs->set_vector_dtype(static_cast<v1::DType>(Below(4)));
    outputs->set_normalize(Chance(2));
    outputs->set_scores(Chance(2));
    outputs->set_probabilities(Chance(2));
    outputs->set_token_logprobs(Chance(2));
    outputs->set_entropy(Chance(2));
    outputs->set_vocab_range(Chance(2));
    outputs->set_values(Chance(2));
    outputs->set_top_logprobs(Chance(2) ? 0 : random_());
    outputs->set_scope(static_cast<v1::Scope>(Below(3)));
    if (Chance(2)) {
      outputs->set_temperature(static_cast<float>(Below(300)) / 2);
    }
  }

  void FillRouting(v1::Routing* routing) {
    routing->set_backend(static_cast<v1::Backend>(Below(7) - 1));
    routing->set_policy(static_cast<v1::Policy>(Below(4)));
    if (Chance(2)) {
      routing->set_max_mask_bytes(static_cast<int64_t>(random_()) - 1'000);
    }
    routing->set_packing(static_cast<v1::Packing>(Below(3)));
  }

  std::mt19937 random_;
};

// Reads little-endian values byte by byte.
template <typename Integer>
std::vector<int64_t> LittleEndian(const std::string& bytes) {
  std::vector<int64_t> values;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Integer)) {
    uint64_t value = 0;
    for (size_t byte = 0; byte < sizeof(Integer); ++byte) {
      value |= uint64_t{static_cast<unsigned char>(bytes[at + byte])} << (8 * byte);
    }
    values.push_back(static_cast<Integer>(value));
  }
  return values;
}

// Returns the tokens of one TokenIds by the contract; nullopt if it is refused.
std::optional<std::vector<int64_t>> TokensOf(const v1::TokenIds& tokens) {
  const int num_forms = (tokens.ids().empty() ? 0 : 1) + (tokens.raw().empty() ? 0 : 1) +
                        (tokens.raw64().empty() ? 0 : 1);
  if (num_forms > 1 || tokens.raw().size() % 4 != 0 || tokens.raw64().size() % 8 != 0) {
    return std::nullopt;
  }
  if (!tokens.raw().empty()) {
    return LittleEndian<int32_t>(tokens.raw());
  }
  if (!tokens.raw64().empty()) {
    return LittleEndian<int64_t>(tokens.raw64());
  }
  std::vector<int64_t> ids;
  for (const uint32_t id : tokens.ids()) {
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

bool InVocabulary(const std::vector<int64_t>& tokens) {
  return std::all_of(tokens.begin(), tokens.end(),
                     [](int64_t token) { return token >= 0 && token < kLimits.vocab_size; });
}

std::vector<int64_t> Widened(absl::Span<const int32_t> tokens) {
  return {tokens.begin(), tokens.end()};
}

// Returns whether the number of candidates fits the question's kind. Precondition: their tokens are
// valid.
bool FitsKind(const v1::Question& question) {
  const int count = question.candidates_size();
  std::set<std::vector<int64_t>> distinct;
  for (const v1::Candidate& candidate : question.candidates()) {
    distinct.insert(*TokensOf(candidate.tokens()));
  }
  switch (question.kind()) {
    case v1::QUESTION_KIND_BOOLEAN:
      return count == 2 && distinct.size() == 2;
    case v1::QUESTION_KIND_CHOICE:
      return count <= 255 && static_cast<int>(distinct.size()) == count;
    case v1::QUESTION_KIND_SCORE:
      return count >= 2 && count <= 10 && static_cast<int>(distinct.size()) == count;
    default:
      return true;
  }
}

// Returns whether the contract allows a question, without the order and code of the decoder.
bool IsValidQuestion(const v1::Question& question) {
  const auto prefix = TokensOf(question.prefix());
  if (!prefix.has_value() || !InVocabulary(*prefix) || question.candidates().empty() ||
      !v1::QuestionKind_IsValid(question.kind())) {
    return false;
  }
  const bool are_valid = std::all_of(question.candidates().begin(), question.candidates().end(),
                                     [&](const v1::Candidate& candidate) {
                                       const auto tokens = TokensOf(candidate.tokens());
                                       if (!tokens.has_value() || !InVocabulary(*tokens)) {
                                         return false;
                                       }
                                       const size_t length = prefix->size() + tokens->size();
                                       return length > 0 && length <= kLimits.max_path_tokens;
                                     });
  return are_valid && FitsKind(question);
}

void ExpectSameQuestions(const v1::ScoreRequest& expected, const std::string& bytes,
                         const DecodedQuestions& decoded) {
  const PathBatch& batch = decoded.batch;
  ASSERT_EQ(batch.num_questions(), expected.questions_size());
  int32_t path = 0;
  for (int32_t q = 0; q < batch.num_questions(); ++q) {
    const v1::Question& question = expected.questions(q);
    EXPECT_EQ(decoded.question_ids[q].In(bytes), question.id());
    EXPECT_EQ(decoded.kinds[q], question.kind());
    EXPECT_EQ(Widened(batch.Tokens(batch.prefixes[q])), TokensOf(question.prefix()));
    ASSERT_EQ(batch.question_offsets[q], path);
    for (const v1::Candidate& candidate : question.candidates()) {
      EXPECT_EQ(decoded.candidate_ids[path].In(bytes), candidate.id());
      EXPECT_EQ(Widened(batch.Tokens(batch.suffixes[path])), TokensOf(candidate.tokens()));
      ++path;
    }
  }
  ASSERT_EQ(batch.num_paths(), path);
}

void ExpectSameHead(const v1::ScoreRequest& expected, const RequestHead& head) {
  EXPECT_EQ(head.request_id, expected.request_id());
  EXPECT_EQ(head.model, expected.model());
  EXPECT_EQ(head.vocabulary_hash, expected.vocabulary_hash());
  EXPECT_EQ(head.priority, expected.priority());
  EXPECT_EQ(head.min_model_version, expected.min_model_version());
  const v1::Outputs& outputs = expected.outputs();
  for (const OutputSpec& spec : kOutputs) {
    const auto* field = v1::Outputs::descriptor()->FindFieldByName(std::string(spec.name));
    ASSERT_NE(field, nullptr) << spec.name;
    const auto* reflection = v1::Outputs::GetReflection();
    EXPECT_EQ(head.outputs.amount(spec.output),
              field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL
                  ? static_cast<uint32_t>(reflection->GetBool(outputs, field))
                  : reflection->GetUInt32(outputs, field))
        << spec.name;
  }
  EXPECT_EQ(head.outputs.vector_dtype, outputs.vector_dtype());
  EXPECT_EQ(head.outputs.normalize, outputs.normalize());
  EXPECT_EQ(head.outputs.scope, outputs.scope());
  ASSERT_EQ(head.outputs.temperature.has_value(), outputs.has_temperature());
  if (outputs.has_temperature() && !std::isnan(outputs.temperature())) {
    EXPECT_EQ(*head.outputs.temperature, outputs.temperature());
  }
  const auto has_unknown = [](const google::protobuf::Message& message) {
    return !message.GetReflection()->GetUnknownFields(message).empty();
  };
  EXPECT_EQ(head.outputs.unknown_field != 0, has_unknown(outputs));
  const v1::Routing& routing = expected.routing();
  EXPECT_EQ(head.routing.backend, routing.backend());
  EXPECT_EQ(head.routing.policy, routing.policy());
  ASSERT_EQ(head.routing.max_mask_bytes.has_value(), routing.has_max_mask_bytes());
  EXPECT_EQ(head.routing.max_mask_bytes.value_or(0), routing.max_mask_bytes());
  EXPECT_EQ(head.routing.packing, routing.packing());
  EXPECT_EQ(head.routing.unknown_field != 0, has_unknown(routing));
}

// The result of decoding, to show that a test reaches every outcome.
enum class Outcome { kMalformed, kRefused, kSame };

Outcome CompareWithProtobuf(const std::string& bytes) {
  v1::ScoreRequest expected;
  const bool parsed = expected.ParseFromString(bytes);
  const absl::StatusOr<RequestHead> head = ReadRequestHead(bytes);
  if (!head.ok()) {
    EXPECT_FALSE(parsed) << head.status();
    return Outcome::kMalformed;
  }
  Violations violations;
  const absl::StatusOr<DecodedQuestions> decoded =
      DecodeQuestions(bytes, head->counts, kLimits, &violations);
  if (!decoded.ok()) {
    EXPECT_FALSE(parsed) << decoded.status();
    return Outcome::kMalformed;
  }
  if (!parsed) {
    // Decoding may stop at the sixteenth wrong value, before the damage.
    EXPECT_TRUE(violations.full());
    return Outcome::kMalformed;
  }
  ExpectSameHead(expected, *head);
  EXPECT_EQ(head->counts.questions, expected.questions_size());
  const bool valid =
      std::all_of(expected.questions().begin(), expected.questions().end(), IsValidQuestion);
  EXPECT_EQ(violations.empty(), valid) << violations.ToStatus();
  if (!valid) {
    return Outcome::kRefused;
  }
  EXPECT_EQ(head->counts.paths, decoded->batch.num_paths());
  EXPECT_GE(head->counts.tokens, static_cast<int64_t>(decoded->batch.tokens.size()));
  ExpectSameQuestions(expected, bytes, *decoded);
  if (!expected.questions().empty()) {
    EXPECT_EQ(ValidatePathBatch(decoded->batch), absl::OkStatus());
  }
  return Outcome::kSame;
}

void CompareMany(bool damage) {
  const google::protobuf::LogSilencer silencer;  // protobuf logs each damaged string
  RandomRequest random(kSeed);
  int outcomes[3] = {};
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", round ", round));
    std::string bytes = random.Make().SerializeAsString();
    // Protobuf merges consecutive messages.
    if (random.Chance(4)) {
      bytes += random.Make().SerializeAsString();
    }
    if (damage) {
      random.Damage(&bytes);
    }
    ++outcomes[static_cast<int>(CompareWithProtobuf(bytes))];
  }
  EXPECT_EQ(outcomes[0] > kRounds / 40, damage);
  EXPECT_GT(outcomes[1], kRounds / 40);
  EXPECT_GT(outcomes[2], kRounds / 40);
}

TEST(RequestDecoderTest, ReadsRandomRequestsAsProtobufDoes) { CompareMany(/*damage=*/false); }

TEST(RequestDecoderTest, ReadsDamagedRequestsAsProtobufDoes) { CompareMany(/*damage=*/true); }

std::string FieldBytes(char tag, const std::string& content) {
  std::string length;
  for (size_t rest = content.size();; rest >>= 7) {
    length += static_cast<char>(rest < 0x80 ? rest : 0x80 | (rest & 0x7f));
    if (rest < 0x80) {
      return absl::StrCat(std::string(1, tag), length, content);
    }
  }
}

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

TEST(RequestDecoderTest, ReadsManyTokensAsProtobufDoes) {
  constexpr TokenLimits kWideLimits = {1'000, 10'000};
  const std::string packed = FieldBytes(0x0a, "\x01\x82\x03\x02");
  const std::string one_packed = FieldBytes(0x0a, "\x07");
  const std::string unpacked = std::string("\x08\x03\x08\x84\x05", 5);
  std::vector<std::string> cases = {
      // Single tokens: more than are collected at once, alone and among others.
      Repeat(unpacked, 100),
      Repeat(one_packed, 200) + unpacked,
      Repeat(one_packed + unpacked + packed, 50),
      Repeat(packed, 30) + Repeat(one_packed, 64) + packed,
  };
  // The sizes are around the first length that takes two bytes.
  for (int size = 118; size < 132; ++size) {
    cases.push_back(FieldBytes(0x0a, std::string(static_cast<size_t>(size), '\1')));
  }
  for (const std::string& tokens : cases) {
    const std::string bytes = FieldBytes(0x1a, FieldBytes(0x1a, FieldBytes(0x12, tokens)));
    v1::ScoreRequest expected;
    ASSERT_TRUE(expected.ParseFromString(bytes));
    const auto& ids = expected.questions(0).candidates(0).tokens().ids();
    const absl::StatusOr<RequestHead> head = ReadRequestHead(bytes);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->counts.tokens, ids.size());
    Violations violations;
    const auto decoded = DecodeQuestions(bytes, head->counts, kWideLimits, &violations);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(violations.empty()) << violations.ToStatus();
    EXPECT_EQ(decoded->batch.tokens, std::vector<int32_t>(ids.begin(), ids.end()));
  }
}

template <typename Integer>
std::string BytesOf(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const auto narrow = static_cast<Integer>(value);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  }
  return bytes;
}

TEST(LooksLikeInt64Test, IsTrueOnlyOfLongArraysWhoseEverySecondValueIsZero) {
  const std::vector<int64_t> tokens = {5, 0, 999, 7, 3, 1};
  EXPECT_TRUE(LooksLikeInt64(BytesOf<int64_t>(tokens)));
  EXPECT_TRUE(LooksLikeInt64(BytesOf<int32_t>({1, 0, 2, 0, 3, 0, 4, 0})));
  EXPECT_TRUE(LooksLikeInt64(BytesOf<int32_t>({0, 0, 0, 0, 0, 0, 4, 0})));

  EXPECT_FALSE(LooksLikeInt64(""));
  EXPECT_FALSE(LooksLikeInt64(BytesOf<int32_t>(tokens)));
  EXPECT_FALSE(LooksLikeInt64(BytesOf<int32_t>({1, 0, 2, 0, 3, 0}))) << "seven values or fewer";
  EXPECT_FALSE(LooksLikeInt64(BytesOf<int32_t>({1, 0, 2, 0, 3, 0, 4, 0, 5}))) << "an odd number";
  EXPECT_FALSE(LooksLikeInt64(BytesOf<int32_t>({1, 0, 2, 0, 3, 0, 4, 1})));
  EXPECT_FALSE(LooksLikeInt64(BytesOf<int32_t>({1, 0, 2, 9, 3, 0, 4, 0})));
  EXPECT_FALSE(LooksLikeInt64(std::string(64, '\0'))) << "as many padding tokens";
  // Negative int64 values do not have zero upper halves.
  EXPECT_FALSE(LooksLikeInt64(BytesOf<int64_t>({1, 2, 3, -4})));
}

TEST(RequestDecoderTest, NamesTheFirstRawThatLooksLikeInt64) {
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  question->mutable_prefix()->add_ids(1);
  question->add_candidates()->mutable_tokens()->set_raw(BytesOf<int32_t>({1, 2, 3, 4, 5, 6, 7, 8}));
  question->add_candidates()->mutable_tokens()->set_raw(BytesOf<int64_t>({1, 2, 3, 4}));
  question->add_candidates()->mutable_tokens()->set_raw(BytesOf<int64_t>({5, 6, 7, 8}));
  const std::string bytes = request.SerializeAsString();
  const absl::StatusOr<RequestHead> head = ReadRequestHead(bytes);
  ASSERT_TRUE(head.ok());
  Violations violations;
  const auto decoded = DecodeQuestions(bytes, head->counts, kLimits, &violations);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(violations.empty()) << violations.ToStatus();
  EXPECT_EQ(decoded->suspicious_raw, "questions[0].candidates[1].tokens.raw");
}

// Bytes that no serialiser of Canopy writes, but others may.
TEST(RequestDecoderTest, ReadsUnusualBytesAsProtobufDoes) {
  const std::string packed = FieldBytes(0x0a, "\x01\x02");
  const std::string unpacked = std::string("\x08\x03\x08\x04", 4);
  const std::string raw = FieldBytes(0x12, std::string("\x05\0\0\0", 4));
  const std::string empty_raw = FieldBytes(0x12, "");
  const std::string raw64 = FieldBytes(0x1a, std::string("\x05\0\0\0\0\0\0\0", 8));
  const std::string empty_raw64 = FieldBytes(0x1a, "");
  const std::string group = "\x7b\x08\x01\x7c";
  const std::string bad_string = "\x0a\x01\xff";
  const auto with_tokens = [](const std::string& tokens) {
    return FieldBytes(0x1a, FieldBytes(0x1a, FieldBytes(0x12, tokens)));
  };
  const std::pair<std::string, Outcome> cases[] = {
      // Empty questions, candidates and tokens.
      {FieldBytes(0x1a, ""), Outcome::kRefused},
      {with_tokens(packed) + FieldBytes(0x1a, ""), Outcome::kRefused},
      {FieldBytes(0x1a, FieldBytes(0x12, packed) + FieldBytes(0x1a, "") +
                            FieldBytes(0x1a, FieldBytes(0x12, ""))),
       Outcome::kSame},
      {with_tokens(FieldBytes(0x0a, "\x80")), Outcome::kMalformed},
      // A truncated length.
      {FieldBytes(0x1a, FieldBytes(0x1a, "\x12\x80" + Repeat("\x08\x01", 64))),
       Outcome::kMalformed},
      {with_tokens(packed + std::string(60, '\x7b') + std::string(60, '\x7c')), Outcome::kSame},
      {with_tokens(packed + unpacked + packed), Outcome::kSame},
      {with_tokens(packed + group), Outcome::kSame},
      {with_tokens(raw + empty_raw + packed), Outcome::kSame},
      {with_tokens(empty_raw + raw), Outcome::kSame},
      {with_tokens(packed + raw), Outcome::kRefused},
      {with_tokens(raw64), Outcome::kSame},
      {with_tokens(raw64 + raw64), Outcome::kSame},
      {with_tokens(raw64 + empty_raw64 + packed), Outcome::kSame},
      {with_tokens(empty_raw64 + empty_raw + raw64), Outcome::kSame},
      {with_tokens(packed + raw64), Outcome::kRefused},
      {with_tokens(raw + raw64), Outcome::kRefused},
      {with_tokens(packed + raw + raw64), Outcome::kRefused},
      // A varint is an unknown field here and ignored.
      {with_tokens(std::string("\x18\x05", 2) + packed), Outcome::kSame},
      {with_tokens(FieldBytes(0x0a, "\x01\x80")), Outcome::kMalformed},
      // 2^32 + 5 is 5 in a uint32.
      {with_tokens(FieldBytes(0x0a, "\x85\x80\x80\x80\x10")), Outcome::kSame},
      // The prefix comes after the candidates, in two pieces.
      {FieldBytes(0x1a, FieldBytes(0x12, packed) + FieldBytes(0x1a, FieldBytes(0x12, packed)) +
                            FieldBytes(0x12, unpacked)),
       Outcome::kSame},
      // The candidate's tokens come in two pieces.
      {FieldBytes(0x1a, FieldBytes(0x1a, FieldBytes(0x12, packed) + FieldBytes(0x12, unpacked))),
       Outcome::kSame},
      // An invalid id is an error even if a valid one replaces it.
      {FieldBytes(0x1a,
                  FieldBytes(0x1a, bad_string + FieldBytes(0x0a, "ok") + FieldBytes(0x12, packed))),
       Outcome::kMalformed},
      // Two Outputs are merged. A known field with the wrong type is an unknown field.
      {FieldBytes(0x22, "\x20\x01") + FieldBytes(0x22, std::string("\x08\x01\x20\x00", 4)),
       Outcome::kSame},
      {FieldBytes(0x22, FieldBytes(0x0a, "x")), Outcome::kSame},
      {FieldBytes(0x2a, "\x0d" + std::string(4, '\1')), Outcome::kSame},
      {FieldBytes(0x22, "\x65" + std::string(4, '\x7f')), Outcome::kSame},
      // A question as a varint and a priority as bytes are unknown fields and ignored.
      {std::string("\x18\x01", 2) + FieldBytes(0x32, "x"), Outcome::kSame},
      {std::string(100, '\x7b') + std::string(100, '\x7c'), Outcome::kSame},
      {std::string(101, '\x7b') + std::string(101, '\x7c'), Outcome::kMalformed},
      {with_tokens(packed + std::string(97, '\x7b') + std::string(97, '\x7c')), Outcome::kSame},
      {with_tokens(packed + std::string(98, '\x7b') + std::string(98, '\x7c')),
       Outcome::kMalformed},
  };
  for (const auto& [bytes, outcome] : cases) {
    SCOPED_TRACE(::testing::PrintToString(bytes));
    EXPECT_EQ(CompareWithProtobuf(bytes), outcome);
  }
}

}  // namespace
}  // namespace canopy::server
