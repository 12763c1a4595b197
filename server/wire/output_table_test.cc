// Compares the table of outputs (core/tree/outputs.h) with the contract in both directions.
#include <set>
#include <string>
#include <type_traits>

#include "canopy/v1/types.pb.h"
#include "core/tree/outputs.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "server/wire/request_head.h"
#include "server/wire/wire_reader.h"

namespace canopy::server {
namespace {

using google::protobuf::FieldDescriptor;

// Returns the fields of Outputs that describe how others are computed (OutputOptions).
const std::set<std::string>& Options() {
  static const auto* const options =
      new std::set<std::string>{"vector_dtype", "normalize", "scope", "temperature"};
  return *options;
}

// Returns the fields of CandidateResult with a list that is not per token.
const std::set<std::string>& OtherLists() {
  static const auto* const lists = new std::set<std::string>{"label_scores", "unscored_outputs"};
  return *lists;
}

TEST(OutputTableTest, EveryFieldOfOutputsIsAnOptionOrHasARow) {
  std::set<std::string> names = Options();
  for (const OutputSpec& spec : kOutputs) {
    const auto* field = v1::Outputs::descriptor()->FindFieldByName(std::string(spec.name));
    ASSERT_NE(field, nullptr) << spec.name;
    EXPECT_EQ(field->cpp_type(), spec.count != nullptr ? FieldDescriptor::CPPTYPE_UINT32
                                                       : FieldDescriptor::CPPTYPE_BOOL);
    EXPECT_TRUE(names.insert(field->name()).second) << "twice: " << field->name();
  }
  const auto* outputs = v1::Outputs::descriptor();
  for (int i = 0; i < outputs->field_count(); ++i) {
    EXPECT_EQ(names.count(outputs->field(i)->name()), 1U)
        << "no row in kOutputs: " << outputs->field(i)->name();
  }
}

TEST(OutputTableTest, RowsAreInTheOrderOfTheirFields) {
  int last = 0;
  for (const OutputSpec& spec : kOutputs) {
    const auto* field = v1::Outputs::descriptor()->FindFieldByName(std::string(spec.name));
    ASSERT_NE(field, nullptr) << spec.name;
    EXPECT_GT(field->number(), last) << spec.name;
    last = field->number();
  }
}

TEST(OutputTableTest, EveryFieldIsReadIntoItsOutput) {
  for (const OutputSpec& spec : kOutputs) {
    const auto* field = v1::Outputs::descriptor()->FindFieldByName(std::string(spec.name));
    ASSERT_NE(field, nullptr) << spec.name;
    v1::Outputs outputs;
    if (spec.count != nullptr) {
      outputs.GetReflection()->SetUInt32(&outputs, field, 7);
    } else {
      outputs.GetReflection()->SetBool(&outputs, field, true);
    }
    OutputsFields fields;
    const std::string bytes = outputs.SerializeAsString();
    EXPECT_TRUE(MergeOutputs(WireReader(bytes), &fields));
    EXPECT_EQ(fields.unknown_field, 0U);
    for (const OutputSpec& other : kOutputs) {
      const uint32_t expected = other.output != spec.output ? 0 : spec.count != nullptr ? 7 : 1;
      EXPECT_EQ(fields.amount(other.output), expected) << spec.name << " " << other.name;
    }
  }
}

TEST(OutputTableTest, EveryListOfCandidateResultHasARow) {
  std::set<std::string> names = OtherLists();
  ForEachList([&names](const auto& spec) {
    // The lists of top tokens are in messages of their own.
    if (spec.output == Output::kTopLogprobs) {
      EXPECT_EQ(spec.field, "");
      names.insert("top_logprobs");
      return;
    }
    using Element = typename std::decay_t<decltype(spec)>::Element;
    const auto* field = v1::CandidateResult::descriptor()->FindFieldByName(std::string(spec.field));
    ASSERT_NE(field, nullptr) << spec.field;
    EXPECT_TRUE(field->is_repeated());
    EXPECT_EQ(field->cpp_type(), (std::is_same_v<Element, float> ? FieldDescriptor::CPPTYPE_FLOAT
                                                                 : FieldDescriptor::CPPTYPE_UINT32))
        << spec.field;
    EXPECT_TRUE(names.insert(field->name()).second) << "twice: " << field->name();
  });
  const auto* result = v1::CandidateResult::descriptor();
  for (int i = 0; i < result->field_count(); ++i) {
    EXPECT_EQ(names.count(result->field(i)->name()), result->field(i)->is_repeated() ? 1U : 0U)
        << "no row in kLists: " << result->field(i)->name();
  }
}

}  // namespace
}  // namespace canopy::server
