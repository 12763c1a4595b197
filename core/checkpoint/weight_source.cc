#include "core/checkpoint/weight_source.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

struct DTypeInfo {
  DType dtype;
  absl::string_view name;
  int64_t bytes;
};

// The rows are in the order of the enum.
constexpr std::array<DTypeInfo, 15> kDTypes = {{
    {DType::kBool, "BOOL", 1},
    {DType::kUInt8, "U8", 1},
    {DType::kInt8, "I8", 1},
    {DType::kFloat8E4M3, "F8_E4M3", 1},
    {DType::kFloat8E5M2, "F8_E5M2", 1},
    {DType::kInt16, "I16", 2},
    {DType::kUInt16, "U16", 2},
    {DType::kFloat16, "F16", 2},
    {DType::kBFloat16, "BF16", 2},
    {DType::kInt32, "I32", 4},
    {DType::kUInt32, "U32", 4},
    {DType::kFloat32, "F32", 4},
    {DType::kInt64, "I64", 8},
    {DType::kUInt64, "U64", 8},
    {DType::kFloat64, "F64", 8},
}};

constexpr size_t kMaxPrintableCharacters = 100;

bool NameLess(const TensorView& a, const TensorView& b) { return a.name < b.name; }

}  // namespace

absl::string_view DTypeName(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

int64_t DTypeBytes(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

absl::StatusOr<WeightSource> WeightSource::Create(std::vector<TensorView> tensors,
                                                  std::shared_ptr<const void> owner,
                                                  ReleaseBytes release) {
  auto contents = std::make_shared<Contents>();
  contents->tensors = std::move(tensors);
  contents->owner = std::move(owner);
  contents->release = std::move(release);
  std::vector<TensorView>& sorted = contents->tensors;
  std::sort(sorted.begin(), sorted.end(), NameLess);
  const auto twin =
      std::adjacent_find(sorted.begin(), sorted.end(),
                         [](const TensorView& a, const TensorView& b) { return a.name == b.name; });
  if (twin != sorted.end()) {
    return absl::DataLossError(
        absl::StrCat("tensor ", PrintableName(twin->name), " is stored twice"));
  }
  for (const TensorView& tensor : sorted) {
    contents->total_bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  return WeightSource(std::move(contents));
}

const TensorView* WeightSource::Find(absl::string_view name) const {
  const std::vector<TensorView>& sorted = contents_->tensors;
  const auto found = std::lower_bound(
      sorted.begin(), sorted.end(), name,
      [](const TensorView& tensor, absl::string_view wanted) { return tensor.name < wanted; });
  return found != sorted.end() && found->name == name ? &*found : nullptr;
}

std::string PrintableName(absl::string_view name) {
  std::string text = absl::CHexEscape(name.substr(0, kMaxPrintableCharacters));
  return name.size() > kMaxPrintableCharacters ? text + "..." : text;
}

}  // namespace canopy
