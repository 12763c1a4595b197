#include "client/codec.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/enum_names.h"
#include "client/json_lines.h"
#include "nlohmann/json.hpp"

namespace canopy::client {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxKeyBytes = 40;  // an error text shows at most this part of a key

absl::Status Refuse(absl::string_view place, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", problem));
}

absl::Status WrongType(absl::string_view place, absl::string_view wanted, const Json& value) {
  return Refuse(place, absl::StrCat("must be ", wanted, ", not ", value.type_name()));
}

absl::Status ReadString(const Json& object, const char* key, std::string* text) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return absl::OkStatus();
  }
  if (!found->is_string()) {
    return WrongType(key, "a string", *found);
  }
  *text = found->get_ref<const std::string&>();
  return absl::OkStatus();
}

// Refuses keys that are neither in `known` nor comments: a misspelt "prefix" would silently score
// something else.
absl::Status RefuseUnknownKeys(const Json& object, std::initializer_list<absl::string_view> known) {
  static constexpr absl::string_view kComments[] = {"prompt", "text", "answer", "comment"};
  const auto is_in = [](const auto& names, absl::string_view key) {
    return std::find(std::begin(names), std::end(names), key) != std::end(names);
  };
  for (const auto& entry : object.items()) {
    if (!is_in(known, entry.key()) && !is_in(kComments, entry.key())) {
      return Refuse(absl::CHexEscape(entry.key().substr(0, kMaxKeyBytes)),
                    absl::StrCat("unknown key; known are ", absl::StrJoin(known, ", "),
                                 ", and for comments ", absl::StrJoin(kComments, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTokens(const Json& object, const char* key, v1::TokenIds* tokens) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return absl::OkStatus();
  }
  if (!found->is_array()) {
    return WrongType(key, "a list of token ids", *found);
  }
  tokens->mutable_ids()->Reserve(static_cast<int>(found->size()));
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& token = (*found)[i];
    // The parser reads -0 as a signed integer.
    const bool is_zero = token.is_number_integer() && token.get<int64_t>() == 0;
    if (!is_zero && (!token.is_number_unsigned() ||
                     token.get<uint64_t>() > std::numeric_limits<uint32_t>::max())) {
      return Refuse(absl::StrCat(key, "[", i, "]"),
                    absl::StrCat(token.is_number() ? token.dump() : token.type_name(),
                                 " is not a token id (an integer from 0 to 4294967295)"));
    }
    tokens->add_ids(token.get<uint32_t>());
  }
  return absl::OkStatus();
}

absl::Status ReadCandidate(const Json& value, v1::Candidate* candidate) {
  if (absl::Status status = RefuseUnknownKeys(value, {"id", "tokens"}); !status.ok()) {
    return status;
  }
  if (absl::Status status = ReadString(value, "id", candidate->mutable_id()); !status.ok()) {
    return status;
  }
  if (value.find("tokens") == value.end()) {
    return Refuse("tokens", "missing; [] is a candidate that ends with the prefix");
  }
  return ReadTokens(value, "tokens", candidate->mutable_tokens());
}

absl::Status ReadCandidates(const Json& object, v1::Question* question) {
  const auto found = object.find("candidates");
  if (found == object.end()) {
    return Refuse("candidates", "missing");
  }
  if (!found->is_array()) {
    return WrongType("candidates", "a list of objects", *found);
  }
  for (size_t i = 0; i < found->size(); ++i) {
    const std::string place = absl::StrCat("candidates[", i, "]");
    const Json& value = (*found)[i];
    if (!value.is_object()) {
      return WrongType(place, "an object", value);
    }
    if (absl::Status status = ReadCandidate(value, question->add_candidates()); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(place, ".", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadKind(const Json& object, v1::Question* question) {
  std::string name = EnumName(v1::QUESTION_KIND_PLAIN);
  if (absl::Status status = ReadString(object, "kind", &name); !status.ok()) {
    return status;
  }
  const absl::StatusOr<v1::QuestionKind> kind = ParseEnum<v1::QuestionKind>(name);
  if (!kind.ok()) {
    return Refuse("kind", kind.status().message());
  }
  question->set_kind(*kind);
  return absl::OkStatus();
}

absl::Status FillQuestion(const Json& object, v1::Question* question) {
  absl::Status status = RefuseUnknownKeys(object, {"id", "kind", "prefix", "candidates"});
  if (status.ok()) {
    status = ReadString(object, "id", question->mutable_id());
  }
  if (status.ok()) {
    status = ReadKind(object, question);
  }
  if (status.ok()) {
    status = ReadTokens(object, "prefix", question->mutable_prefix());
  }
  return status.ok() ? ReadCandidates(object, question) : status;
}

}  // namespace

absl::StatusOr<v1::Question> ReadQuestion(const Json& document) {
  if (!document.is_object()) {
    return WrongType("question", "an object", document);
  }
  v1::Question question;
  if (absl::Status status = FillQuestion(document, &question); !status.ok()) {
    return status;
  }
  return question;
}

absl::StatusOr<v1::Question> ParseQuestion(absl::string_view line) {
  const absl::StatusOr<Json> document = ParseStrictJson(line);
  return document.ok() ? ReadQuestion(*document) : document.status();
}

absl::Status ReadQuestions(std::istream& input, v1::ScoreRequest* request) {
  return ReadJsonLines(input, [request](const Json& document) {
    absl::StatusOr<v1::Question> question = ReadQuestion(document);
    if (!question.ok()) {
      return question.status();
    }
    *request->add_questions() = *std::move(question);
    return absl::OkStatus();
  });
}

}  // namespace canopy::client
