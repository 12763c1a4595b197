#include "server/wire/request_head.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "canopy/v1/scorer.pb.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

using Request = v1::ScoreRequest;
using Outputs = v1::Outputs;
using Routing = v1::Routing;
using Question = v1::Question;
using Candidate = v1::Candidate;
using TokenIds = v1::TokenIds;

// The smallest length that takes two bytes on the wire.
constexpr size_t kSmallestLongLength = 0x80;

// Fields are passed by value, so that the compiler can keep their parts in registers.

// Enums and bools have 64 bits on the wire.
int32_t ToEnum(uint64_t varint) { return static_cast<int32_t>(varint); }

float ToFloat(uint64_t varint) {
  const auto bits = static_cast<uint32_t>(varint);
  float value = 0;
  static_assert(sizeof(value) == sizeof(bits));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void NoteUnknown(uint32_t number, uint32_t* unknown_field) {
  if (*unknown_field == 0) {
    *unknown_field = number;
  }
}

// Returns the output that the field of Outputs with this number requests; null = none.
const OutputSpec* FindOutput(uint32_t number) {
  static const auto* const by_number = [] {
    auto* specs = new std::vector<const OutputSpec*>();
    for (const OutputSpec& spec : kOutputs) {
      const auto* field = Outputs::descriptor()->FindFieldByName(std::string(spec.name));
      if (field != nullptr) {
        const auto place = static_cast<size_t>(field->number());
        specs->resize(std::max(specs->size(), place + 1));
        (*specs)[place] = &spec;
      }
    }
    return specs;
  }();
  return number < by_number->size() ? (*by_number)[number] : nullptr;
}

// Sets the varint field of Outputs with this number. Returns false if Outputs has no such field.
bool SetOutput(uint32_t number, uint64_t varint, OutputsFields* outputs) {
  switch (number) {
    case Outputs::kVectorDtypeFieldNumber:
      outputs->vector_dtype = ToEnum(varint);
      return true;
    case Outputs::kNormalizeFieldNumber:
      outputs->normalize = varint != 0;
      return true;
    case Outputs::kScopeFieldNumber:
      outputs->scope = ToEnum(varint);
      return true;
    default:
      break;
  }
  const OutputSpec* spec = FindOutput(number);
  if (spec == nullptr) {
    return false;
  }
  const bool is_count = spec->count != nullptr;
  outputs->amounts[static_cast<size_t>(spec->output)] =
      is_count ? static_cast<uint32_t>(varint) : static_cast<uint32_t>(varint != 0);
  return true;
}

// Adds the number of tokens in one TokenIds, whatever its form. A truncated last varint is not
// counted. Returns false if the bytes are malformed.
bool CountTokens(absl::string_view bytes, int depth, int64_t* tokens) {
  int64_t count = 0;
  WireReader reader(bytes, depth);
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(TokenIds::kIdsFieldNumber)) {
      count += CountFewVarints(field.bytes);
    } else if (field.IsVarint(TokenIds::kIdsFieldNumber)) {
      ++count;
    } else if (field.IsBytes(TokenIds::kRawFieldNumber)) {
      count += static_cast<int64_t>(field.bytes.size() / sizeof(int32_t));
    } else if (field.IsBytes(TokenIds::kRaw64FieldNumber)) {
      count += static_cast<int64_t>(field.bytes.size() / sizeof(int64_t));
    }
  }
  *tokens += count;
  return !reader.malformed();
}

bool CountCandidate(absl::string_view bytes, int depth, int64_t* tokens) {
  // Most TokenIds consist of one field of tokens.
  constexpr char kTokensTag =
      Candidate::kTokensFieldNumber << 3 | static_cast<int>(WireType::kBytes);
  if (bytes.size() >= 2 && bytes.size() < kSmallestLongLength + 2 && bytes[0] == kTokensTag &&
      static_cast<unsigned char>(bytes[1]) == bytes.size() - 2) {
    return CountTokens(bytes.substr(2), depth - 1, tokens);
  }
  WireReader reader(bytes, depth);
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(Candidate::kTokensFieldNumber) && !field.bytes.empty() &&
        !CountTokens(field.bytes, depth - 1, tokens)) {
      return false;
    }
  }
  return !reader.malformed();
}

bool CountQuestion(absl::string_view bytes, int depth, RequestCounts* counts) {
  int64_t candidates = 0;
  WireReader reader(bytes, depth);
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(Question::kPrefixFieldNumber)) {
      if (!CountTokens(field.bytes, depth - 1, &counts->tokens)) {
        return false;
      }
    } else if (field.IsBytes(Question::kCandidatesFieldNumber)) {
      ++candidates;
      if (!field.bytes.empty() && !CountCandidate(field.bytes, depth - 1, &counts->tokens)) {
        return false;
      }
    }
  }
  if (reader.malformed()) {
    return false;
  }
  if (candidates > counts->max_candidates) {
    counts->max_candidates = candidates;
    counts->max_candidates_question = counts->questions;
  }
  counts->paths += candidates;
  ++counts->questions;
  return true;
}

bool SetText(absl::string_view bytes, absl::string_view* text) {
  *text = bytes;
  return IsValidUtf8(bytes);
}

// Reads `bytes`, the contents of field `number`. Returns false if they are malformed. Empty
// submessages are counted without being parsed, because they are the cheapest way to inflate a
// count.
bool ReadBytesField(uint32_t number, absl::string_view bytes, int depth, RequestHead* head) {
  switch (number) {
    case Request::kRequestIdFieldNumber:
      return SetText(bytes, &head->request_id);
    case Request::kModelFieldNumber:
      return SetText(bytes, &head->model);
    case Request::kQuestionsFieldNumber:
      if (bytes.empty()) {
        ++head->counts.questions;
        return true;
      }
      return CountQuestion(bytes, depth, &head->counts);
    case Request::kOutputsFieldNumber:
      return bytes.empty() || MergeOutputs(WireReader(bytes, depth), &head->outputs);
    case Request::kRoutingFieldNumber:
      return bytes.empty() || MergeRouting(WireReader(bytes, depth), &head->routing);
    case Request::kVocabularyHashFieldNumber:
      return SetText(bytes, &head->vocabulary_hash);
    default:
      return true;
  }
}

std::string FieldName(const WireField& field, const RequestCounts& counts) {
  if (field.number == Request::kQuestionsFieldNumber) {
    return absl::StrCat("questions[", counts.questions, "]");
  }
  const auto* descriptor = Request::descriptor()->FindFieldByNumber(field.number);
  return descriptor == nullptr ? "ScoreRequest" : descriptor->name();
}

}  // namespace

bool MergeOutputs(WireReader reader, OutputsFields* outputs) {
  for (WireField field; reader.Next(&field);) {
    if (field.type == WireType::kVarint && SetOutput(field.number, field.varint, outputs)) {
      continue;
    }
    if (field.number == Outputs::kTemperatureFieldNumber && field.type == WireType::kFixed32) {
      outputs->temperature = ToFloat(field.varint);
    } else {
      NoteUnknown(field.number, &outputs->unknown_field);
    }
  }
  return !reader.malformed();
}

bool MergeRouting(WireReader reader, RoutingFields* routing) {
  for (WireField field; reader.Next(&field);) {
    if (field.IsVarint(Routing::kBackendFieldNumber)) {
      routing->backend = ToEnum(field.varint);
    } else if (field.IsVarint(Routing::kPolicyFieldNumber)) {
      routing->policy = ToEnum(field.varint);
    } else if (field.IsVarint(Routing::kMaxMaskBytesFieldNumber)) {
      routing->max_mask_bytes = static_cast<int64_t>(field.varint);
    } else if (field.IsVarint(Routing::kPackingFieldNumber)) {
      routing->packing = ToEnum(field.varint);
    } else {
      NoteUnknown(field.number, &routing->unknown_field);
    }
  }
  return !reader.malformed();
}

absl::Status MalformedRequestError(absl::string_view field) {
  Violations violations;
  violations.Add(std::string(field), "the bytes are not a canopy.v1.ScoreRequest");
  return violations.ToStatus();
}

absl::StatusOr<RequestHead> ReadRequestHead(absl::string_view message) {
  RequestHead head;
  WireReader reader(message);
  for (WireField field; reader.Next(&field);) {
    if (field.IsVarint(Request::kPriorityFieldNumber)) {
      head.priority = ToEnum(field.varint);
    } else if (field.IsVarint(Request::kMinModelVersionFieldNumber)) {
      head.min_model_version = field.varint;
    } else if (field.type == WireType::kBytes &&
               !ReadBytesField(field.number, field.bytes, WireReader::kMaxDepth - 1, &head)) {
      return MalformedRequestError(FieldName(field, head.counts));
    }
  }
  if (reader.malformed()) {
    return MalformedRequestError("ScoreRequest");
  }
  return head;
}

}  // namespace canopy::server
