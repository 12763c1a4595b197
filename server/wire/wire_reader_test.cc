#include "server/wire/wire_reader.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) {
    bytes += static_cast<char>(value);
  }
  return bytes;
}

// Reads all fields and returns their number; -1 = malformed. The message ends where its memory
// ends, so that AddressSanitizer finds reads beyond it.
int CountFields(const std::string& message, int depth = WireReader::kMaxDepth) {
  const std::vector<char> exact(message.begin(), message.end());
  WireReader reader(absl::string_view(exact.data(), exact.size()), depth);
  int count = 0;
  for (WireField field; reader.Next(&field);) {
    ++count;
  }
  return reader.malformed() ? -1 : count;
}

TEST(WireReaderTest, ReadsEveryWireType) {
  const std::string message = Bytes({0x08, 0x96, 0x01,                             // 1: varint 150
                                     0x12, 0x02, 'h',  'i',                        // 2: "hi"
                                     0x1d, 0x00, 0x00, 0x80, 0x3f,                 // 3: fixed32
                                     0x21, 1,    2,    0,    0,    0, 0, 0, 0x80,  // 4: fixed64
                                     0x2b, 0x08, 0x01, 0x2c});                     // 5: group
  WireReader reader(message);
  WireField field;
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_TRUE(field.IsVarint(1));
  EXPECT_EQ(field.varint, 150U);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_TRUE(field.IsBytes(2));
  EXPECT_EQ(field.bytes, "hi");
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kFixed32);
  EXPECT_EQ(field.varint, 0x3f800000U);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.varint, 0x8000000000000201U);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kStartGroup);
  EXPECT_EQ(field.number, 5U);
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_FALSE(reader.malformed());
}

TEST(WireReaderTest, RefusesWhatIsCutOffOrOverlong) {
  EXPECT_EQ(CountFields(Bytes({0x08})), -1);                              // no value
  EXPECT_EQ(CountFields(Bytes({0x08, 0x80})), -1);                        // truncated varint
  EXPECT_EQ(CountFields(Bytes({0x12, 0x03, 'h', 'i'})), -1);              // length beyond the end
  EXPECT_EQ(CountFields(Bytes({0x1d, 0, 0, 0})), -1);                     // truncated fixed32
  EXPECT_EQ(CountFields(Bytes({0x00, 0x00})), -1);                        // field number 0
  EXPECT_EQ(CountFields(Bytes({0x0e})), -1);                              // wire type 6
  EXPECT_EQ(CountFields(Bytes({0x0f})), -1);                              // wire type 7
  EXPECT_EQ(CountFields("\x08" + std::string(10, '\x80') + "\x01"), -1);  // 11-byte varint
  EXPECT_EQ(CountFields(std::string(5, '\x88') + Bytes({0x00, 0x01})), -1);  // 6-byte tag
  EXPECT_EQ(CountFields(Bytes({0x12, 0x80, 0x80, 0x80, 0x80, 0x08})), -1);   // 2 GiB length
}

TEST(WireReaderTest, RefusesGroupsThatDoNotMatchOrNestTooDeeply) {
  EXPECT_EQ(CountFields(Bytes({0x0b})), -1);        // never ends
  EXPECT_EQ(CountFields(Bytes({0x0c})), -1);        // ends without start
  EXPECT_EQ(CountFields(Bytes({0x0b, 0x14})), -1);  // 1 ended by 2
  EXPECT_EQ(CountFields(Bytes({0x0b, 0x13, 0x14, 0x0c})), 1);
  const std::string deep = std::string(100, '\x0b') + std::string(100, '\x0c');
  EXPECT_EQ(CountFields(deep), 1);
  EXPECT_EQ(CountFields("\x0b" + deep + "\x0c"), -1);
  EXPECT_EQ(CountFields(deep, 99), -1);
  EXPECT_EQ(CountFields(Bytes({0x0b, 0x0c}), 1), 1);
  EXPECT_EQ(CountFields(Bytes({0x0b, 0x0c}), 0), -1);
  EXPECT_EQ(CountFields(Bytes({0x0b, 0x0d})), -1);  // a truncated fixed32
}

TEST(WireReaderTest, TagsMayTakeTwoBytes) {
  const std::string message = Bytes({0x80, 0x01, 0x07,          // 16: varint 7
                                     0xfa, 0x7f, 0x01, 'x',     // 2047: "x"
                                     0x83, 0x01, 0x84, 0x01});  // 16: group of nothing
  WireReader reader(message);
  WireField field;
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_TRUE(field.IsVarint(16));
  EXPECT_EQ(field.varint, 7U);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_TRUE(field.IsBytes(2047));
  EXPECT_EQ(field.bytes, "x");
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 16U);
  EXPECT_EQ(field.type, WireType::kStartGroup);
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_FALSE(reader.malformed());
  EXPECT_EQ(CountFields(Bytes({0x80, 0x01})), -1);             // no value
  EXPECT_EQ(CountFields(Bytes({0x80, 0x00, 0x01})), -1);       // field number 0
  EXPECT_EQ(CountFields(Bytes({0x82, 0x01, 0x02, 'x'})), -1);  // length beyond the end
  EXPECT_EQ(CountFields(Bytes({0x88, 0x00, 0x01})), 1);        // 1 in two bytes
  EXPECT_EQ(CountFields(Bytes({0x80, 0x80, 0x01, 0x01})), 1);  // a tag of three
}

// The last byte of each varint has its highest bit clear, wherever the varint is among others.
TEST(WireReaderTest, CountsAndReadsVarintsOfEveryLengthAtEveryPlace) {
  EXPECT_EQ(CountVarints(""), 0);
  EXPECT_EQ(CountFewVarints(Bytes({0x7f})), 1);
  EXPECT_EQ(CountFewVarints(Bytes({0x80})), 0);
  EXPECT_EQ(CountVarints(Bytes({0x00, 0x7f, 0x80, 0x01, 0xff, 0xff, 0x03})), 4);
  for (size_t before = 0; before < 20; ++before) {
    for (int length = 1; length <= 5; ++length) {
      for (size_t after = 0; after < 20; ++after) {
        std::string packed(before, '\x05');
        packed.append(static_cast<size_t>(length) - 1, '\x81');
        packed += std::string(1, '\x02') + std::string(after, '\x7f');
        std::vector<int32_t> expected(before, 5);
        uint32_t value = 2U << (7 * (length - 1));
        for (int i = 0; i + 1 < length; ++i) {
          value |= 1U << (7 * i);
        }
        expected.push_back(static_cast<int32_t>(value));
        expected.resize(before + 1 + after, 0x7f);
        ASSERT_EQ(CountVarints(packed), static_cast<int64_t>(expected.size()));
        std::vector<int32_t> values(expected.size() + 8, -1);
        ASSERT_TRUE(ReadPackedVarints(packed, values.data()));
        expected.resize(values.size(), -1);  // to check that nothing beyond was written
        ASSERT_EQ(values, expected) << before << " " << length << " " << after;
      }
    }
  }
}

}  // namespace
}  // namespace canopy::server
