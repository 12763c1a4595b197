#include "client/output_fields.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/protobuf/message.h"

namespace canopy::client {
namespace {

// The fields of Outputs that describe how outputs are computed.
constexpr absl::string_view kOptions[] = {"vector_dtype", "normalize", "scope", "temperature"};

// The fields of CandidateResult whose name differs from that of their output, and the fields whose
// output does not have one entry per token.
struct NamedOtherwise {
  absl::string_view field;
  absl::string_view output;
  bool is_per_token;
};
constexpr NamedOtherwise kNamedOtherwise[] = {
    {"score", "scores", false},
    {"label_scores", "scores", false},
    {"probability", "probabilities", false},
    {"sum_logprob", "token_logprobs", true},
    {"min_logit", "vocab_range", true},
    {"max_logit", "vocab_range", true},
};

// The lists that have an entry for the path's first token, which has no distribution.
constexpr absl::string_view kFromScope[] = {"values"};

template <typename Names>
bool Contains(const Names& names, absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::vector<const Field*> FindOutputFields() {
  std::vector<const Field*> fields;
  const google::protobuf::Descriptor& outputs = *v1::Outputs::descriptor();
  for (int i = 0; i < outputs.field_count(); ++i) {
    if (!Contains(kOptions, outputs.field(i)->name())) {
      fields.push_back(outputs.field(i));
    }
  }
  return fields;
}

// `output` is null for a field that does not contain an output.
ResultField Resolve(const Field& field) {
  absl::string_view output = field.name();
  bool is_per_token = true;
  for (const NamedOtherwise& row : kNamedOtherwise) {
    if (row.field == field.name()) {
      output = row.output;
      is_per_token = row.is_per_token;
    }
  }
  return {&field, v1::Outputs::descriptor()->FindFieldByName(std::string(output)), is_per_token,
          Contains(kFromScope, field.name()) ? ListStart::kScope : ListStart::kFirstScored};
}

std::vector<ResultField> FindResultFields() {
  std::vector<ResultField> fields;
  const google::protobuf::Descriptor& result = *v1::CandidateResult::descriptor();
  for (int i = 0; i < result.field_count(); ++i) {
    const ResultField field = Resolve(*result.field(i));
    if (field.output != nullptr) {
      fields.push_back(field);
    }
  }
  return fields;
}

std::vector<ResultField> FindTokenLists() {
  std::vector<ResultField> lists;
  std::copy_if(
      ResultFields().begin(), ResultFields().end(), std::back_inserter(lists),
      [](const ResultField& field) { return field.is_per_token && field.field->is_repeated(); });
  return lists;
}

template <typename T>
absl::Span<const T> NumbersOf(const v1::CandidateResult& result, const Field& list) {
  // The function that protobuf recommends instead makes a virtual call per number.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return v1::CandidateResult::GetReflection()->GetRepeatedField<T>(result, &list);
#pragma GCC diagnostic pop
}

}  // namespace

std::vector<absl::string_view> OutputsFieldNames() {
  std::vector<absl::string_view> names;
  const google::protobuf::Descriptor& outputs = *v1::Outputs::descriptor();
  names.reserve(static_cast<size_t>(outputs.field_count()));
  for (int i = 0; i < outputs.field_count(); ++i) {
    names.push_back(outputs.field(i)->name());
  }
  return names;
}

const std::vector<const Field*>& OutputFields() {
  static const auto* const fields = new std::vector<const Field*>(FindOutputFields());
  return *fields;
}

bool Asks(const v1::Outputs& outputs, const Field& output) {
  return v1::Outputs::GetReflection()->HasField(outputs, &output);
}

const std::vector<ResultField>& ResultFields() {
  static const auto* const fields = new std::vector<ResultField>(FindResultFields());
  return *fields;
}

const std::vector<ResultField>& TokenLists() {
  static const auto* const lists = new std::vector<ResultField>(FindTokenLists());
  return *lists;
}

bool Has(const v1::CandidateResult& result, const Field& field) {
  return field.is_repeated() ? SizeOf(result, field) > 0
                             : v1::CandidateResult::GetReflection()->HasField(result, &field);
}

uint64_t SizeOf(const v1::CandidateResult& result, const Field& list) {
  return static_cast<uint64_t>(v1::CandidateResult::GetReflection()->FieldSize(result, &list));
}

absl::Span<const float> FloatsOf(const v1::CandidateResult& result, const Field& list) {
  return NumbersOf<float>(result, list);
}

absl::Span<const uint32_t> IntegersOf(const v1::CandidateResult& result, const Field& list) {
  return NumbersOf<uint32_t>(result, list);
}

bool IsFloat(const Field& field) { return field.cpp_type() == Field::CPPTYPE_FLOAT; }

bool IsInteger(const Field& field) { return field.cpp_type() == Field::CPPTYPE_UINT32; }

std::string EntryTitle(const Field& list) {
  absl::string_view name = list.name();
  absl::ConsumePrefix(&name, "token_");
  absl::ConsumeSuffix(&name, "s");
  return absl::StrReplaceAll(name, {{"_", " "}});
}

}  // namespace canopy::client
