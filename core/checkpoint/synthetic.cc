#include "core/checkpoint/synthetic.h"

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/checkpoint/weight_schema.h"

namespace canopy {
namespace {

constexpr float kDeviation = 0.02F;
// A power of two makes 1 + noise exact, whether or not the compiler uses fused multiply-add.
constexpr float kNormDeviation = 1.0F / 64;

// SplitMix64 (Steele, Lea, Flood 2014) is a counter followed by a bijective mixer.
constexpr uint64_t kSplitMixIncrement = 0x9E3779B97F4A7C15;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t TensorSeed(uint64_t seed, absl::string_view name) {
  uint64_t state = Mix(seed + kSplitMixIncrement);
  for (const char letter : name) {
    state = Mix(state ^ static_cast<uint8_t>(letter));
  }
  return state;
}

// The sum of twelve uniform 16-bit numbers is very nearly normal with standard deviation 2^16. It
// needs only integer arithmetic, so it is fast and has the same bits on every machine, unlike
// logarithms.
void FillNormal(uint64_t state, float mean, float deviation, absl::Span<float> values) {
  constexpr uint64_t kEvenLanes = 0x0000FFFF0000FFFF;
  constexpr int64_t kMeanOfSum = 12 * 65535 / 2;
  constexpr float kUnit = 1.0F / 65536;
  for (float& value : values) {
    uint64_t pairs = 0;  // two sums of six numbers in one word
    for (int i = 0; i < 3; ++i) {
      state += kSplitMixIncrement;
      const uint64_t word = Mix(state);
      pairs += (word & kEvenLanes) + ((word >> 16) & kEvenLanes);
    }
    const auto sum = static_cast<int64_t>((pairs & 0xFFFFFFFF) + (pairs >> 32));
    value = mean + deviation * (static_cast<float>(sum - kMeanOfSum) * kUnit);
  }
}

}  // namespace

absl::StatusOr<WeightSource> MakeSyntheticWeights(const ModelConfig& config, uint64_t seed,
                                                  int64_t max_bytes) {
  const int64_t total = CountParameters(config);
  const int64_t total_bytes = total * static_cast<int64_t>(sizeof(float));
  if (total_bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("synthetic weights of ", total_bytes, " bytes exceed ", max_bytes));
  }
  const std::shared_ptr<float[]> values(new (std::nothrow) float[static_cast<size_t>(total)]);
  if (values == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for synthetic weights of ", total_bytes, " bytes"));
  }
  std::vector<TensorView> tensors;
  float* next = values.get();
  for (TensorSpec& spec : ExpectedTensors(config)) {
    const auto elements = static_cast<size_t>(NumElements(spec.shape));
    const bool is_norm = absl::EndsWith(spec.name, "norm.weight");
    FillNormal(TensorSeed(seed, spec.name), is_norm ? 1.0F : 0.0F,
               is_norm ? kNormDeviation : kDeviation, absl::MakeSpan(next, elements));
    tensors.push_back(
        {std::move(spec.name), DType::kFloat32, std::move(spec.shape),
         absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(next), elements * sizeof(float))});
    next += elements;
  }
  return WeightSource::Create(std::move(tensors), values);
}

}  // namespace canopy
