#include "core/checkpoint/weight_check.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

// Returns tensors of `dtype` with these bytes.
WeightSource SourceOf(DType dtype, const std::vector<std::pair<std::string, std::string>>& named) {
  auto owner = std::make_shared<std::vector<std::pair<std::string, std::string>>>(named);
  std::vector<TensorView> views;
  for (const auto& [name, bytes] : *owner) {
    views.push_back({name,
                     dtype,
                     {static_cast<int64_t>(bytes.size()) / DTypeBytes(dtype)},
                     {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
  }
  return *WeightSource::Create(std::move(views), owner);
}

WeightMap MapOf(const WeightSource& source) {
  WeightMap map{source, {}, false, false, {}};
  for (const TensorView& tensor : source.tensors()) {
    map.tensors.emplace(tensor.name, tensor);
  }
  return map;
}

TEST(LoadedBytesTest, CountsElementsOnceInTheTypeOfTheComputation) {
  const WeightSource source =
      SourceOf(DType::kBFloat16, {{"embed_tokens.weight", std::string(12, 'x')},
                                  {"lm_head.weight", std::string(12, 'x')},
                                  {"norm.weight", std::string(2, 'x')}});
  ModelConfig config;
  config.head = ModelHead::kLanguageModel;
  config.tie_word_embeddings = false;
  EXPECT_EQ(LoadedBytes(source, config, 4), (6 + 6 + 1) * 4);
  EXPECT_EQ(LoadedBytes(source, config, 2), (6 + 6 + 1) * 2);
  config.tie_word_embeddings = true;
  EXPECT_EQ(LoadedBytes(source, config, 4), (6 + 1) * 4);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(LoadedBytes(source, config, kMost / 5), kMost) << "neither product nor sum overflows";
}

TEST(CheckMemoryTest, SaysWhatIsNeededAndWhatIsThere) {
  EXPECT_TRUE(CheckMemory(10, 10, "host memory").ok());
  const absl::Status status = CheckMemory(11, 10, "host memory");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "loading needs 11 bytes of host memory, and 10 are available");
}

// Compares every 16-bit value with the standard library's classification.
TEST(CheckFiniteTest, KnowsEveryHalf) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    std::string bytes(2, '\0');
    std::memcpy(bytes.data(), &half, sizeof(half));
    const uint32_t wide = uint32_t{half} << 16;
    float value = 0;
    std::memcpy(&value, &wide, sizeof(value));
    EXPECT_EQ(CheckFinite(MapOf(SourceOf(DType::kBFloat16, {{"a", bytes}}))).ok(),
              std::isfinite(value))
        << bits;
    EXPECT_EQ(CheckFinite(MapOf(SourceOf(DType::kFloat16, {{"a", bytes}}))).ok(),
              (bits >> 10 & 0x1f) != 0x1f)
        << bits;
  }
}

TEST(CheckFiniteTest, NamesTensorAndPlaceWhereverItIs) {
  constexpr size_t kElements = 10'000;
  std::vector<float> values(kElements, std::numeric_limits<float>::max());
  const auto source = [&values] {
    const std::string bytes(reinterpret_cast<const char*>(values.data()), kElements * 4);
    return SourceOf(DType::kFloat32, {{"good", std::string(8, '\1')}, {"other", bytes}});
  };
  EXPECT_TRUE(CheckFinite(MapOf(source())).ok());
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t place : {size_t{0}, size_t{4095}, size_t{4096}, kElements - 1}) {
      values[place] = bad;
      const absl::Status status = CheckFinite(MapOf(source()));
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_EQ(status.message(), "tensor other is not finite at element " + std::to_string(place));
      values[place] = 0;
    }
  }
}

TEST(CheckFiniteTest, StopsWhenNobodyWantsIt) {
  const WeightMap map = MapOf(SourceOf(DType::kFloat32, {{"a", std::string(4, '\0')}}));
  EXPECT_TRUE(absl::IsCancelled(CheckFinite(map, [] { return absl::CancelledError("gone"); })));
  int asked = 0;
  const WeightMap two =
      MapOf(SourceOf(DType::kFloat32, {{"a", std::string(4, '\0')}, {"b", std::string(4, '\0')}}));
  EXPECT_TRUE(CheckFinite(two, [&asked] {
                ++asked;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace canopy
