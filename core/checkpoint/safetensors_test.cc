#include "core/checkpoint/safetensors.h"

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checkpoint/testing/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Returns the bytes that the Python package safetensors writes for
// {"b.weight": float32 [[1, -2, 3.5], [0, 0.25, -1]], "a": bfloat16 [1.5, 2.5, -3],
//  "scalar": int64 7, "none": float32 [0, 4]} with metadata {"format": "pt"}.
std::string FileOfThePythonPackage() {
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("b.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                             R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[32,32]},)"
                             R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[32,38]}}    )";
  const std::string data(
      "\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x60\x40"
      "\x00\x00\x00\x00\x00\x00\x80\x3e\x00\x00\x80\xbf\xc0\x3f\x20\x40\x40\xc0",
      38);
  return std::string("\x10\x01\x00\x00\x00\x00\x00\x00", 8) + header + data;
}

TEST(SafetensorsTest, ReadsAFileOfThePythonPackage) {
  const std::string file = FileOfThePythonPackage();
  ASSERT_EQ(file.size(), 318U);
  const auto tensors = ParseSafetensors(Bytes(file));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 4U);
  const auto& [a, b, none, scalar] =
      std::tie((*tensors)[0], (*tensors)[1], (*tensors)[2], (*tensors)[3]);
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::kBFloat16);
  EXPECT_THAT(a.shape, ElementsAre(3));
  EXPECT_THAT(a.bytes, ElementsAre(0xc0, 0x3f, 0x20, 0x40, 0x40, 0xc0));
  EXPECT_EQ(b.name, "b.weight");
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.bytes.data(), Bytes(file).data() + 8 + 272 + 8) << "a view, not a copy";
  EXPECT_EQ(b.bytes.size(), 24U);
  EXPECT_EQ(none.name, "none");
  EXPECT_THAT(none.shape, ElementsAre(0, 4));
  EXPECT_TRUE(none.bytes.empty());
  EXPECT_EQ(scalar.name, "scalar");
  EXPECT_EQ(scalar.dtype, DType::kInt64);
  EXPECT_THAT(scalar.shape, ElementsAre());
  EXPECT_EQ(scalar.bytes[0], 7);
}

TEST(SafetensorsTest, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(ParseSafetensors(Bytes(SafetensorsFile("{}", "")))->empty());
  EXPECT_TRUE(ParseSafetensors(Bytes(SafetensorsFile(R"({"__metadata__":{}})", "")))->empty());
}

TEST(SafetensorsTest, RefusesBadLengths) {
  const auto with_length = [](uint64_t length, const std::string& rest) {
    std::string file;
    for (int i = 0; i < 8; ++i, length >>= 8) {
      file += static_cast<char>(length & 0xff);
    }
    return file + rest;
  };
  for (const std::string& file : {
           std::string(),
           std::string("\x02"),
           std::string(7, '\0'),
           with_length(0, ""),
           with_length(0, "{}"),
           with_length(1, "{}"),
           with_length(3, "{}"),
           with_length(100, "{}"),
           with_length(100'000'000, "{}"),
           with_length(100'000'001, "{}"),
           with_length(uint64_t{1} << 63, "{}"),
           with_length((uint64_t{1} << 63) - 1, "{}"),
           with_length(~uint64_t{0}, "{}"),
           with_length(~uint64_t{0} - 7, "{}"),
       }) {
    const auto tensors = ParseSafetensors(Bytes(file));
    EXPECT_EQ(tensors.status().code(), absl::StatusCode::kDataLoss) << file.size();
  }
  const std::string long_header = with_length(100'000'001, "{}");
  EXPECT_THAT(ParseSafetensors(Bytes(long_header)).status().message(),
              HasSubstr("header of 100000001 bytes exceeds 100000000"));
}

// Returns an entry "t" with the given fields in place of a valid F32 [2] at 0..8.
std::string Fields(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return absl::StrCat(R"({"t":{"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)",
                      offsets, "}}");
}

TEST(SafetensorsTest, RefusesMalformedHeaders) {
  struct Case {
    std::string header, message;
  };
  const std::string deep(100'000, '[');
  const std::vector<Case> cases = {
      {" {}", "does not start with '{'"},
      {"[]", "does not start with '{'"},
      {"\xef\xbb\xbf{}", "does not start with '{'"},
      {"{", "not JSON"},
      {"{}x", "not JSON"},
      {std::string("{}\0", 3), "not JSON"},
      {"{\"t\":NaN}", "not JSON"},
      {"{\"\xff\":{}}", "not JSON"},
      {"{\"t\":" + deep, "nested deeper"},
      {R"({"t":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "nested deeper"},
      {R"({"__metadata__":{"a":{"b":{"c":1}}}})", "nested deeper"},
      {R"({"__metadata__":[]})", "__metadata__ is not an object"},
      {R"({"__metadata__":null})", "__metadata__ is not an object"},
      {R"({"__metadata__":"pt"})", "__metadata__ is not an object"},
      {R"({"__metadata__":{"a":1}})", "__metadata__.a is not a string"},
      {R"({"__metadata__":{"a":"b","a":"b"}})", "duplicate key \"a\""},
      {R"({"t":1})", "tensor t: not an object"},
      {R"({"t":null})", "tensor t: not an object"},
      {R"({"t":[]})", "tensor t: not an object"},
      {R"({"t":{}})", "tensor t: not an object"},
      {R"({"t":{"dtype":"F32","shape":[2]}})", "tensor t: not an object"},
      {R"({"t":{"dtype":"F32","shape":[2],"offsets":[0,8]}})", "tensor t: not an object"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":0}})", "not an object of"},
      {Fields("\"f32\"", "[2]", "[0,8]"), "unknown dtype \"f32\""},
      {Fields("\"F4\"", "[2]", "[0,8]"), "unknown dtype \"F4\""},
      {Fields("32", "[2]", "[0,8]"), "unknown dtype 32"},
      {Fields("null", "[2]", "[0,8]"), "unknown dtype null"},
      {Fields("\"F32\"", "2", "[0,8]"), "shape 2 is not a shape"},
      {Fields("\"F32\"", "[-2]", "[0,8]"), "shape [-2] is not a shape"},
      {Fields("\"F32\"", "[2.0]", "[0,8]"), "shape [2.0] is not a shape"},
      {Fields("\"F32\"", "[\"2\"]", "[0,8]"), "is not a shape"},
      {Fields("\"F32\"", "[true]", "[0,8]"), "is not a shape"},
      {Fields("\"F32\"", "[9223372036854775808]", "[0,8]"), "is not a shape"},
      {Fields("\"F32\"", "[18446744073709551616]", "[0,8]"), "is not a shape"},
      {Fields("\"F32\"", "[9223372036854775807]", "[0,8]"), "takes more than 2^63"},
      {Fields("\"F32\"", "[4611686018427387906]", "[0,8]"), "takes more than 2^63"},
      {Fields("\"F32\"", "[4294967296,4294967296,2]", "[0,8]"), "takes more than 2^63"},
      {Fields("\"F32\"", "[3]", "[0,8]"), "takes 12 bytes, data_offsets give 8"},
      {Fields("\"F32\"", "[2,0]", "[0,8]"), "takes 0 bytes, data_offsets give 8"},
      {Fields("\"BF16\"", "[2]", "[0,8]"), "takes 4 bytes, data_offsets give 8"},
      {Fields("\"F32\"", "[]", "[0,8]"), "takes 4 bytes, data_offsets give 8"},
      {Fields("\"F32\"", "[2]", "[8,0]"), "data_offsets [8,0] is not a range"},
      {Fields("\"F32\"", "[2]", "[-8,0]"), "is not a range"},
      {Fields("\"F32\"", "[2]", "[0]"), "is not a range"},
      {Fields("\"F32\"", "[2]", "[0,8,8]"), "is not a range"},
      {Fields("\"F32\"", "[2]", "{\"0\":8}"), "is not a range"},
      {Fields("\"F32\"", "[2]", "[0,8.0]"), "is not a range"},
      {Fields("\"F32\"", "[2]", "[0,18446744073709551615]"), "is not a range"},
      {Fields("\"F32\"", "[2]", "[18446744073709551608,18446744073709551615]"), "not a range"},
      {Fields("\"F32\"", "[2]", "[8,16]"), "tensor t starts at 8, not at the end 0"},
      {Fields("\"F32\"", "[2]", "[9223372036854775799,9223372036854775807]"), "starts at"},
      {Fields("\"F32\"", "[1]", "[0,4]"), "tensors end at byte 4 of 8 data bytes"},
      {Fields("\"F32\"", "[4]", "[0,16]"), "tensors end at byte 16 of 8 data bytes"},
      {"{}", "tensors end at byte 0 of 8 data bytes"},
  };
  for (const Case& bad : cases) {
    const std::string file = SafetensorsFile(bad.header, std::string(8, 'x'));
    const auto tensors = ParseSafetensors(Bytes(file));
    EXPECT_EQ(tensors.status().code(), absl::StatusCode::kDataLoss) << bad.header.substr(0, 100);
    EXPECT_THAT(tensors.status().message(), HasSubstr(bad.message)) << bad.header.substr(0, 100);
  }
  EXPECT_TRUE(
      ParseSafetensors(Bytes(SafetensorsFile(Fields("\"F32\"", "[2]", "[0,8]"), "12345678"))).ok());
}

TEST(SafetensorsTest, RefusesOverlapsHolesAndDuplicates) {
  const auto two = [](const std::string& name, const std::string& shape, int begin, int end) {
    return absl::StrCat("{", SafetensorsEntry("t", "U8", "[4]", 2, 6), ",",
                        SafetensorsEntry("s", "U8", "[2]", 0, 2), ",",
                        SafetensorsEntry(name, "U8", shape, begin, end), "}");
  };
  const auto status = [](const std::string& header) {
    const std::string file = SafetensorsFile(header, "01234567");
    return ParseSafetensors(Bytes(file)).status();
  };
  EXPECT_TRUE(status(two("u", "[2]", 6, 8)).ok());
  EXPECT_THAT(status(two("u", "[3]", 5, 8)).message(), HasSubstr("starts at 5, inside"));
  EXPECT_THAT(status(two("u", "[8]", 0, 8)).message(), HasSubstr("starts at 0, inside"));
  EXPECT_THAT(status(two("u", "[4]", 2, 6)).message(), HasSubstr("starts at 2, inside"));
  EXPECT_THAT(status(two("u", "[0]", 4, 4)).message(), HasSubstr("starts at 4, inside"));
  EXPECT_THAT(status(two("u", "[1]", 7, 8)).message(), HasSubstr("starts at 7, not at"));
  EXPECT_THAT(status(two("u", "[0]", 9, 9)).message(), HasSubstr("starts at 9, not at"));
  EXPECT_THAT(status(two("t", "[2]", 6, 8)).message(), HasSubstr("duplicate key \"t\""));
  EXPECT_THAT(status(two(R"(\u0074)", "[2]", 6, 8)).message(), HasSubstr("duplicate key \"t\""));
}

TEST(SafetensorsTest, BoundsTheNumberOfHeaderValues) {
  std::string header = R"({"t":{"dtype":"F32","data_offsets":[0,8],"shape":[1)";
  for (int i = 0; i < 1'000'000; ++i) {
    header += ",1";
  }
  header += "]}}";
  const std::string file = SafetensorsFile(header, "12345678");
  EXPECT_THAT(ParseSafetensors(Bytes(file)).status().message(),
              HasSubstr("more than 1000000 JSON values"));
}

TEST(SafetensorsTest, RefusesEveryTruncation) {
  const std::string file = FileOfThePythonPackage();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_EQ(ParseSafetensors(Bytes(cut)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_FALSE(ParseSafetensors(Bytes(file + "x")).ok());
}

// For any bytes, the parser returns either an error or dense views inside the file.
TEST(SafetensorsTest, SurvivesRandomDamage) {
  std::mt19937 random(20240918);
  const std::string good = FileOfThePythonPackage();
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = good;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int edit = 0; edit < edits; ++edit) {
      const size_t place = random() % 290;
      file[place] = round % 2 == 0 ? static_cast<char>(random())
                                   : static_cast<char>("0123456789[]{},:\"-.e"[random() % 20]);
    }
    const auto tensors = ParseSafetensors(Bytes(file));
    if (!tensors.ok()) {
      ++refused;
      continue;
    }
    for (const TensorView& tensor : *tensors) {
      int64_t dense_bytes = DTypeBytes(tensor.dtype);
      for (const int64_t dimension : tensor.shape) {
        dense_bytes *= dimension;
      }
      EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()), dense_bytes);
      EXPECT_TRUE(tensor.bytes.empty() ||
                  (tensor.bytes.data() >= Bytes(file).data() + 8 &&
                   tensor.bytes.data() + tensor.bytes.size() <= Bytes(file).data() + file.size()));
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_LT(refused, 20'000);
}

}  // namespace
}  // namespace canopy
