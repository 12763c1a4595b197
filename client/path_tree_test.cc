#include "client/path_tree.h"

#include <cstdint>
#include <random>

#include "client/testing/samples.h"
#include "client/tree_check.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::google::protobuf::util::MessageDifferencer;

TEST(PathTreeTest, TheTreeEqualsThatOfExplain) {
  for (int i = 0; i < SampleRequest().questions_size(); ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(BuildPathTree(SampleRequest().questions(i)),
                                           SampleExplanation().questions(i)));
  }
}

TEST(PathTreeTest, TheTreeIsMinimal) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    v1::Question question;
    for (uint32_t i = random() % 4; i > 0; --i) {
      question.mutable_prefix()->add_ids(random() % 3);
    }
    for (uint32_t c = 1 + random() % 9; c > 0; --c) {
      v1::TokenIds* tokens = question.add_candidates()->mutable_tokens();
      tokens->add_ids(random() % 3);
      for (uint32_t i = random() % 6; i > 0; --i) {
        tokens->add_ids(random() % 2);
      }
    }
    const v1::QuestionTree tree = BuildPathTree(question);
    // The tree spells every path, with each candidate once, depth first.
    ASSERT_TRUE(CheckTree(question, tree).ok()) << question.DebugString() << tree.DebugString();
    for (int i = 0; i < tree.nodes_size(); ++i) {
      int num_children = 0;
      for (int j = i + 1; j < tree.nodes_size(); ++j) {
        num_children += tree.nodes(j).parent() == i ? 1 : 0;
        // Siblings differ in their first token, or they would share it.
        if (tree.nodes(j).parent() == tree.nodes(i).parent()) {
          EXPECT_NE(tree.nodes(j).tokens(0), tree.nodes(i).tokens(0));
        }
      }
      // An only child of a node without an endpoint would belong to its run.
      EXPECT_TRUE(num_children != 1 || !tree.nodes(i).candidates().empty());
    }
  }
}

}  // namespace
}  // namespace canopy::client
