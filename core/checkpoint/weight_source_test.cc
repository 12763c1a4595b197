#include "core/checkpoint/weight_source.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/testing/four_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

TEST(WeightSourceTest, ListsInNameOrderAndFindsByName) {
  const auto source = WeightSource::Create(FourTensors(), nullptr);
  ASSERT_TRUE(source.ok());
  std::vector<std::string> names;
  for (const TensorView& tensor : source->tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(source->Find(tensor.name), &tensor);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b.weight", "none", "scalar"));
  EXPECT_EQ(source->total_bytes(), 38);
  for (const char* absent : {"", "b", "b.weight2", "z"}) {
    EXPECT_EQ(source->Find(absent), nullptr);
  }
}

TEST(WeightSourceTest, RefusesTwoTensorsOfOneName) {
  auto tensors = FourTensors();
  tensors[3].name = "a";
  const auto source = WeightSource::Create(tensors, nullptr);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(source.status().message(), ::testing::HasSubstr("tensor a is stored twice"));
}

TEST(WeightSourceTest, CopiesKeepTheOwnerAlive) {
  auto owner = std::make_shared<std::string>("\x01\x02");
  const std::weak_ptr<std::string> watch = owner;
  std::vector<TensorView> tensors = {{"t", DType::kUInt8, {2}, Bytes(*owner)}};
  auto source = WeightSource::Create(std::move(tensors), std::move(owner));
  ASSERT_TRUE(source.ok());
  {
    const WeightSource copy = *source;
    source = absl::UnknownError("dropped");
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(copy.Find("t")->bytes[1], 2);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(WeightSourceTest, ReleasesTheBytesOfATensorThroughItsOwner) {
  const std::string data = "abcd";
  std::vector<TensorView> tensors = {{"t", DType::kUInt8, {4}, Bytes(data)}};
  std::vector<absl::Span<const uint8_t>> released;
  const auto source = WeightSource::Create(
      tensors, nullptr,
      [&released](absl::Span<const uint8_t> bytes) { released.push_back(bytes); });
  ASSERT_TRUE(source.ok());
  TensorView view = *source->Find("t");
  view.bytes = view.bytes.subspan(1, 2);
  source->Release(view);
  ASSERT_EQ(released.size(), 1U);
  EXPECT_EQ(released[0], Bytes("bc"));
  // Without a release function, Release does nothing.
  WeightSource::Create(tensors, nullptr)->Release(view);
  EXPECT_EQ(released.size(), 1U);
}

TEST(DTypeTest, NamesAreThoseOfTheFormat) {
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, int64_t>>{{"BOOL", 1},
                                                                                {"U8", 1},
                                                                                {"I8", 1},
                                                                                {"F8_E4M3", 1},
                                                                                {"F8_E5M2", 1},
                                                                                {"I16", 2},
                                                                                {"U16", 2},
                                                                                {"F16", 2},
                                                                                {"BF16", 2},
                                                                                {"I32", 4},
                                                                                {"U32", 4},
                                                                                {"F32", 4},
                                                                                {"I64", 8},
                                                                                {"U64", 8},
                                                                                {"F64", 8}}) {
    const auto dtype = DTypeFromName(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(DTypeName(*dtype), name);
    EXPECT_EQ(DTypeBytes(*dtype), bytes) << name;
  }
  EXPECT_EQ(DTypeName(DType::kFloat32), "F32");
  EXPECT_EQ(DTypeName(DType::kBFloat16), "BF16");
  EXPECT_EQ(DTypeName(DType::kFloat64), "F64");
  for (const char* unknown : {"", "f32", "F32 ", "float32", "F128"}) {
    EXPECT_FALSE(DTypeFromName(unknown).has_value()) << unknown;
  }
}

TEST(PrintableNameTest, EscapesAndShortens) {
  EXPECT_EQ(PrintableName("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(PrintableName("a\nb\xff"), "a\\nb\\xff");
  EXPECT_EQ(PrintableName(std::string(500, 'x')), std::string(100, 'x') + "...");
}

}  // namespace
}  // namespace canopy
