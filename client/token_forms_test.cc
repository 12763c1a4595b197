#include "client/token_forms.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/token_ids.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

std::string Int64Bytes(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    for (int byte = 0; byte < 8; ++byte) {
      bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * byte));
    }
  }
  return bytes;
}

std::vector<uint32_t> TokensOf(const v1::TokenIds& ids) {
  std::vector<uint32_t> tokens;
  for (uint64_t i = 0; i < NumTokens(ids); ++i) {
    tokens.push_back(TokenAt(ids, i));
  }
  return tokens;
}

TEST(TokenFormsTest, Int64TokensBecomeLittleEndianInt32) {
  v1::TokenIds ids;
  ids.add_ids(9);
  ASSERT_TRUE(SetTokens({1, 0, 258, 2'147'483'647}, &ids).ok());
  EXPECT_EQ(ids.raw(), std::string("\1\0\0\0\0\0\0\0\2\1\0\0\xff\xff\xff\x7f", 16));
  EXPECT_EQ(ids.ids_size(), 0);
  ASSERT_TRUE(SetTokens({}, &ids).ok());
  EXPECT_EQ(NumTokens(ids), 0);
}

TEST(TokenFormsTest, TokensThatInt32CannotHoldAreRefused) {
  for (const int64_t token :
       {int64_t{-1}, int64_t{1} << 31, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
    v1::TokenIds ids;
    ids.add_ids(9);
    const absl::Status status = SetTokens({5, token}, &ids);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(status.message(),
              absl::StrCat("token ", token, " at index 1 is not from 0 to 2147483647"));
    EXPECT_EQ(TokensOf(ids), std::vector<uint32_t>({9}));
  }
}

TEST(TokenFormsTest, EveryRaw64OfARequestIsNarrowedAndNothingElseChanges) {
  v1::ScoreRequest request;
  v1::Question* question = request.add_questions();
  question->mutable_prefix()->set_raw64(Int64Bytes({7, 8, 9}));
  question->add_candidates()->mutable_tokens()->add_ids(3);
  question->add_candidates()->mutable_tokens()->set_raw64(Int64Bytes({70'000}));
  question->add_candidates();
  EXPECT_EQ(TokensOf(question->prefix()), std::vector<uint32_t>({7, 8, 9}));
  v1::ScoreRequest expected = request;
  ASSERT_TRUE(SetTokens({7, 8, 9}, expected.mutable_questions(0)->mutable_prefix()).ok());
  ASSERT_TRUE(
      SetTokens({70'000}, expected.mutable_questions(0)->mutable_candidates(1)->mutable_tokens())
          .ok());
  EXPECT_TRUE(HasRaw64(request));
  ASSERT_TRUE(NarrowRaw64(&request).ok());
  EXPECT_FALSE(HasRaw64(request));
  EXPECT_EQ(request.SerializeAsString(), expected.SerializeAsString());
  ASSERT_TRUE(NarrowRaw64(&request).ok());
  EXPECT_EQ(request.SerializeAsString(), expected.SerializeAsString());
}

TEST(TokenFormsTest, Raw64ThatCannotBeNarrowedIsRefusedWithItsPlace) {
  const auto narrow = [](const v1::TokenIds& ids) {
    v1::ScoreRequest request;
    request.add_questions()->add_candidates();
    *request.mutable_questions(0)->add_candidates()->mutable_tokens() = ids;
    const absl::Status status = NarrowRaw64(&request);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  const std::string place = "questions[0].candidates[1].tokens: ";
  v1::TokenIds ids;
  ids.set_raw64(std::string(12, '\0'));
  EXPECT_EQ(narrow(ids), place + "raw64 of 12 bytes is not a multiple of 8; not sent");
  ids.set_raw64(Int64Bytes({4, -3}));
  EXPECT_EQ(narrow(ids), place + "token -3 at index 1 is not from 0 to 2147483647; not sent");
  ids.set_raw(std::string(4, '\0'));
  EXPECT_EQ(narrow(ids), place + "raw and raw64 are both set; not sent");
  ids.add_ids(1);
  EXPECT_EQ(narrow(ids), place + "ids and raw64 are both set; not sent");
}

}  // namespace
}  // namespace canopy::client
