// Named tensors in host memory, wherever they come from: a checkpoint folder or a random generator.
#ifndef CORE_CHECKPOINT_WEIGHT_SOURCE_H_
#define CORE_CHECKPOINT_WEIGHT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace canopy {

// Element types of the safetensors format.
enum class DType {
  kBool,
  kUInt8,
  kInt8,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt16,
  kUInt16,
  kFloat16,
  kBFloat16,
  kInt32,
  kUInt32,
  kFloat32,
  kInt64,
  kUInt64,
  kFloat64,
};

// The format's spelling, such as "BF16".
absl::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);
int64_t DTypeBytes(DType dtype);

// A dense tensor, row-major, little-endian. A view: the WeightSource that it came from, or a copy
// of that source, must outlive it. `bytes` may start at any address: copy, do not cast.
struct TensorView {
  std::string name;  // As stored, for instance "model.embed_tokens.weight".
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> bytes;  // Product of shape times DTypeBytes(dtype).
};

// Immutable; cheap to copy (copies share the bytes); safe to read from any thread.
class WeightSource {
 public:
  // Gives the memory of these bytes back to the system.
  using ReleaseBytes = std::function<void(absl::Span<const uint8_t> bytes)>;

  // Takes tensors in any order with `owner`, which keeps their bytes alive. DATA_LOSS when two
  // have one name. `release` (null = does nothing) is what Release does.
  static absl::StatusOr<WeightSource> Create(std::vector<TensorView> tensors,
                                             std::shared_ptr<const void> owner,
                                             ReleaseBytes release = nullptr);

  // In ascending byte order of the names.
  const std::vector<TensorView>& tensors() const { return contents_->tensors; }
  // Null when there is no such tensor.
  const TensorView* Find(absl::string_view name) const;
  int64_t total_bytes() const { return contents_->total_bytes; }

  // Says that nobody will read the bytes of `tensor`, or of a view into one, any more. They are
  // unspecified from now on, also for copies of this source.
  void Release(const TensorView& tensor) const {
    if (contents_->release) {
      contents_->release(tensor.bytes);
    }
  }

 private:
  struct Contents {
    std::vector<TensorView> tensors;
    std::shared_ptr<const void> owner;
    ReleaseBytes release;
    int64_t total_bytes = 0;
  };

  explicit WeightSource(std::shared_ptr<const Contents> contents)
      : contents_(std::move(contents)) {}

  std::shared_ptr<const Contents> contents_;
};

// `name` for an error message: printable ASCII, cut at about 100 characters.
std::string PrintableName(absl::string_view name);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_WEIGHT_SOURCE_H_
