#include "core/checkpoint/weight_check.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace canopy {
namespace {

// The number of elements that are checked before the loop may end: few enough to stop early, and
// enough for the compiler to vectorize the check.
constexpr size_t kBlockElements = 4096;

// A float is finite unless all bits of its exponent are set. `bytes` may start at any address.
template <typename Bits>
std::optional<size_t> FindNonFinite(absl::Span<const uint8_t> bytes, Bits exponent) {
  const size_t size = bytes.size() / sizeof(Bits);
  Bits block[kBlockElements];
  for (size_t begin = 0; begin < size; begin += kBlockElements) {
    const size_t count = std::min(kBlockElements, size - begin);
    std::memcpy(block, bytes.data() + begin * sizeof(Bits), count * sizeof(Bits));
    bool found = false;
    for (size_t i = 0; i < count; ++i) {
      found |= (block[i] & exponent) == exponent;
    }
    for (size_t i = 0; found && i < count; ++i) {
      if ((block[i] & exponent) == exponent) {
        return begin + i;
      }
    }
  }
  return std::nullopt;
}

std::optional<size_t> FindNonFinite(DType dtype, absl::Span<const uint8_t> bytes) {
  switch (dtype) {
    case DType::kFloat32:
      return FindNonFinite<uint32_t>(bytes, 0x7f800000);
    case DType::kBFloat16:
      return FindNonFinite<uint16_t>(bytes, 0x7f80);
    case DType::kFloat16:
      return FindNonFinite<uint16_t>(bytes, 0x7c00);
    default:
      return std::nullopt;
  }
}

}  // namespace

int64_t LoadedBytes(const WeightSource& source, const ModelConfig& config, int64_t element_bytes) {
  // A tied head is read if the embedding is not stored.
  const bool has_embedding = source.Find("model.embed_tokens.weight") != nullptr ||
                             source.Find("embed_tokens.weight") != nullptr;
  const bool reads_head =
      config.head == ModelHead::kLanguageModel && !(config.tie_word_embeddings && has_embedding);
  int64_t bytes = 0;
  for (const TensorView& tensor : source.tensors()) {
    if (!reads_head && tensor.name == "lm_head.weight") {
      continue;
    }
    const int64_t elements = static_cast<int64_t>(tensor.bytes.size()) / DTypeBytes(tensor.dtype);
    bytes = SaturatingAdd(bytes, SaturatingMultiply(elements, element_bytes));
  }
  return bytes;
}

absl::Status CheckMemory(int64_t needed, int64_t available, absl::string_view where) {
  if (needed <= available) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("loading needs ", needed, " bytes of ", where,
                                                   ", and ", available, " are available"));
}

absl::Status CheckFinite(const WeightMap& weights, const WantedCheck& check_wanted) {
  for (const auto& [name, tensor] : weights.tensors) {
    const auto element_bytes = static_cast<size_t>(DTypeBytes(tensor.dtype));
    for (size_t begin = 0; begin < tensor.bytes.size(); begin += kStepBytes) {
      if (check_wanted) {
        CANOPY_RETURN_IF_ERROR(check_wanted());
      }
      const std::optional<size_t> index =
          FindNonFinite(tensor.dtype, tensor.bytes.subspan(begin, kStepBytes));
      if (index.has_value()) {
        return absl::DataLossError(absl::StrCat("tensor ", PrintableName(tensor.name),
                                                " is not finite at element ",
                                                begin / element_bytes + *index));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy
