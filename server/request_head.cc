#include "server/request_head.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "canopy/v1/scorer.pb.h"
#include "server/violations.h"

namespace canopy::server {
namespace {

using Request = v1::ScoreRequest;
using Outputs = v1::Outputs;
using Routing = v1::Routing;
using Question = v1::Question;
using Candidate = v1::Candidate;
using TokenIds = v1::TokenIds;

// Enums and bools go through 64 bits on the wire.
int32_t ToEnum(const WireField& field) { return static_cast<int32_t>(field.varint); }
bool ToBool(const WireField& field) { return field.varint != 0; }

float ToFloat(const WireField& field) {
  const auto bits = static_cast<uint32_t>(field.varint);
  float value = 0;
  static_assert(sizeof(value) == sizeof(bits));
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void NoteUnknown(const WireField& field, uint32_t* unknown_field) {
  if (*unknown_field == 0) {
    *unknown_field = field.number;
  }
}

// Where a varint field of Outputs goes; false = it is none of Outputs' varint fields.
bool SetOutput(const WireField& field, OutputsFields* outputs) {
  switch (field.number) {
    case Outputs::kVectorsFieldNumber:
      outputs->vectors = ToBool(field);
      return true;
    case Outputs::kVectorDtypeFieldNumber:
      outputs->vector_dtype = ToEnum(field);
      return true;
    case Outputs::kNormalizeFieldNumber:
      outputs->normalize = ToBool(field);
      return true;
    case Outputs::kScoresFieldNumber:
      outputs->scores = ToBool(field);
      return true;
    case Outputs::kProbabilitiesFieldNumber:
      outputs->probabilities = ToBool(field);
      return true;
    case Outputs::kTokenLogprobsFieldNumber:
      outputs->token_logprobs = ToBool(field);
      return true;
    case Outputs::kEntropyFieldNumber:
      outputs->entropy = ToBool(field);
      return true;
    case Outputs::kVocabRangeFieldNumber:
      outputs->vocab_range = ToBool(field);
      return true;
    case Outputs::kValuesFieldNumber:
      outputs->values = ToBool(field);
      return true;
    case Outputs::kTopLogprobsFieldNumber:
      outputs->top_logprobs = static_cast<uint32_t>(field.varint);
      return true;
    case Outputs::kScopeFieldNumber:
      outputs->scope = ToEnum(field);
      return true;
    default:
      return false;
  }
}

// Tokens in one TokenIds, both forms; a cut-off last varint is not counted. False when malformed.
bool CountTokens(WireReader reader, int64_t* tokens) {
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(TokenIds::kIdsFieldNumber)) {
      *tokens += CountVarints(field.bytes);
    } else if (field.IsVarint(TokenIds::kIdsFieldNumber)) {
      ++*tokens;
    } else if (field.IsBytes(TokenIds::kRawFieldNumber)) {
      *tokens += static_cast<int64_t>(field.bytes.size() / sizeof(int32_t));
    }
  }
  return !reader.malformed();
}

bool CountCandidate(WireReader reader, int64_t* tokens) {
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(Candidate::kTokensFieldNumber) &&
        !CountTokens(reader.Nested(field), tokens)) {
      return false;
    }
  }
  return !reader.malformed();
}

bool CountQuestion(WireReader reader, RequestCounts* counts) {
  int64_t candidates = 0;
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(Question::kPrefixFieldNumber)) {
      if (!CountTokens(reader.Nested(field), &counts->tokens)) {
        return false;
      }
    } else if (field.IsBytes(Question::kCandidatesFieldNumber)) {
      ++candidates;
      if (!CountCandidate(reader.Nested(field), &counts->tokens)) {
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

bool SetText(const WireField& field, absl::string_view* text) {
  *text = field.bytes;
  return IsValidUtf8(field.bytes);
}

// False when what is inside `field` is malformed.
bool ReadBytesField(const WireReader& reader, const WireField& field, RequestHead* head) {
  switch (field.number) {
    case Request::kRequestIdFieldNumber:
      return SetText(field, &head->request_id);
    case Request::kModelFieldNumber:
      return SetText(field, &head->model);
    case Request::kQuestionsFieldNumber:
      return CountQuestion(reader.Nested(field), &head->counts);
    case Request::kOutputsFieldNumber:
      return MergeOutputs(reader.Nested(field), &head->outputs);
    case Request::kRoutingFieldNumber:
      return MergeRouting(reader.Nested(field), &head->routing);
    case Request::kVocabularyHashFieldNumber:
      return SetText(field, &head->vocabulary_hash);
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
    if (field.number == Outputs::kTemperatureFieldNumber && field.type == WireType::kFixed32) {
      outputs->temperature = ToFloat(field);
    } else if (field.type != WireType::kVarint || !SetOutput(field, outputs)) {
      NoteUnknown(field, &outputs->unknown_field);
    }
  }
  return !reader.malformed();
}

bool MergeRouting(WireReader reader, RoutingFields* routing) {
  for (WireField field; reader.Next(&field);) {
    if (field.IsVarint(Routing::kBackendFieldNumber)) {
      routing->backend = ToEnum(field);
    } else if (field.IsVarint(Routing::kPolicyFieldNumber)) {
      routing->policy = ToEnum(field);
    } else if (field.IsVarint(Routing::kMaxMaskBytesFieldNumber)) {
      routing->max_mask_bytes = static_cast<int64_t>(field.varint);
    } else if (field.IsVarint(Routing::kPackingFieldNumber)) {
      routing->packing = ToEnum(field);
    } else {
      NoteUnknown(field, &routing->unknown_field);
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
      head.priority = ToEnum(field);
    } else if (field.IsVarint(Request::kMinModelVersionFieldNumber)) {
      head.min_model_version = field.varint;
    } else if (field.type == WireType::kBytes && !ReadBytesField(reader, field, &head)) {
      return MalformedRequestError(FieldName(field, head.counts));
    }
  }
  if (reader.malformed()) {
    return MalformedRequestError("ScoreRequest");
  }
  return head;
}

}  // namespace canopy::server
