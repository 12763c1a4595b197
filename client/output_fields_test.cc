// Checks that the data derived from the contract's descriptors covers the contract.
#include "client/output_fields.h"

#include <map>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::set<std::string> OutputNames() {
  std::set<std::string> names;
  for (const Field* output : OutputFields()) {
    names.insert(output->name());
  }
  return names;
}

TEST(OutputFieldsTest, OptionsAreNoOutputs) {
  const std::set<std::string> names = OutputNames();
  for (const char* option : {"vector_dtype", "normalize", "scope", "temperature"}) {
    EXPECT_THAT(names, Not(Contains(option)));
    EXPECT_NE(v1::Outputs::descriptor()->FindFieldByName(option), nullptr) << option;
  }
  EXPECT_EQ(names.size() + 4, OutputsFieldNames().size());
}

TEST(OutputFieldsTest, OnlyFlagsAndCountsRequestOutputs) {
  for (const Field* output : OutputFields()) {
    EXPECT_TRUE(output->cpp_type() == Field::CPPTYPE_BOOL || IsInteger(*output)) << output->name();
  }
}

TEST(OutputFieldsTest, EveryOutputButVectorsHasAFieldInTheResult) {
  std::set<std::string> without = OutputNames();
  for (const ResultField& field : ResultFields()) {
    without.erase(field.output->name());
  }
  EXPECT_THAT(without, ElementsAre("vectors"));
}

TEST(OutputFieldsTest, EveryListOfTheResultButTwoIsPerToken) {
  std::set<std::string> lists = {"label_scores", "unscored_outputs"};
  for (const ResultField& list : TokenLists()) {
    lists.insert(list.field->name());
    EXPECT_TRUE(IsFloat(*list.field) || IsInteger(*list.field) ||
                list.field->message_type() == v1::TopLogprobs::descriptor())
        << "no check, column or comparison reads " << list.field->name();
  }
  const google::protobuf::Descriptor& result = *v1::CandidateResult::descriptor();
  for (int i = 0; i < result.field_count(); ++i) {
    EXPECT_EQ(lists.count(result.field(i)->name()), result.field(i)->is_repeated() ? 1U : 0U)
        << result.field(i)->name();
  }
}

TEST(OutputFieldsTest, ListsKnowTheirOutputAndTheirStart) {
  std::map<std::string, std::string> outputs;
  for (const ResultField& list : TokenLists()) {
    outputs[list.field->name()] = list.output->name();
    EXPECT_EQ(list.start == ListStart::kScope, list.field->name() == "values");
  }
  EXPECT_EQ(outputs["token_logprobs"], "token_logprobs");
  EXPECT_EQ(outputs["min_logit"], "vocab_range");
  EXPECT_EQ(outputs["max_logit"], "vocab_range");
}

TEST(OutputFieldsTest, TitlesNameOneEntry) {
  const google::protobuf::Descriptor& result = *v1::CandidateResult::descriptor();
  EXPECT_EQ(EntryTitle(*result.FindFieldByName("token_logprobs")), "logprob");
  EXPECT_EQ(EntryTitle(*result.FindFieldByName("entropy")), "entropy");
  EXPECT_EQ(EntryTitle(*result.FindFieldByName("min_logit")), "min logit");
  EXPECT_EQ(EntryTitle(*result.FindFieldByName("values")), "value");
  EXPECT_EQ(EntryTitle(*result.FindFieldByName("token_ranks")), "rank");
}

TEST(OutputFieldsTest, NumbersAreThoseOfTheField) {
  v1::CandidateResult result;
  const Field& entropy = *v1::CandidateResult::descriptor()->FindFieldByName("entropy");
  EXPECT_FALSE(Has(result, entropy));
  result.add_entropy(1);
  result.add_entropy(2);
  EXPECT_TRUE(Has(result, entropy));
  EXPECT_EQ(SizeOf(result, entropy), 2U);
  EXPECT_THAT(FloatsOf(result, entropy), ElementsAre(1, 2));
  v1::Outputs outputs;
  EXPECT_FALSE(Asks(outputs, *v1::Outputs::descriptor()->FindFieldByName("top_logprobs")));
  outputs.set_top_logprobs(3);
  EXPECT_TRUE(Asks(outputs, *v1::Outputs::descriptor()->FindFieldByName("top_logprobs")));
}

}  // namespace
}  // namespace canopy::client
