#include "core/checkpoint/testing/four_tensors.h"

#include <string>

namespace canopy {

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::vector<TensorView> FourTensors() {
  static const std::string* const matrix = new std::string(
      "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x60\x40\x00\x00\x00\x00\x00\x00\x80\x3e"
      "\x00\x00\x80\xbf",
      24);
  return {{"b.weight", DType::kFloat32, {2, 3}, Bytes(*matrix)},
          {"scalar", DType::kInt64, {}, Bytes(absl::string_view("\x07\0\0\0\0\0\0\0", 8))},
          {"a", DType::kBFloat16, {3}, Bytes("\xc0\x3f\x20\x40\x40\xc0")},
          {"none", DType::kFloat32, {0, 4}, {}}};
}

}  // namespace canopy
