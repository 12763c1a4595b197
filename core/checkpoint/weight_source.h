// Named tensors in host memory, from a checkpoint folder or a random generator.
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

// Returns the format's spelling, such as "BF16".
absl::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);
int64_t DTypeBytes(DType dtype);

// A dense tensor, row-major, little-endian. This is a view: the WeightSource that it came from, or
// a copy of that source, must outlive it. `bytes` may start at any address, so elements must be
// copied out instead of accessed through a cast pointer.
struct TensorView {
  std::string name;  // as stored, for instance "model.embed_tokens.weight"
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> bytes;  // product of shape times DTypeBytes(dtype)
};

// Immutable and thread-safe. Copies are cheap and share the bytes.
class WeightSource {
 public:
  // Returns the memory of these bytes to the system.
  using ReleaseBytes = std::function<void(absl::Span<const uint8_t> bytes)>;

  // Makes a source of tensors in any order. `owner` keeps their bytes alive. Release calls
  // `release`; null = Release is a no-op. Returns DATA_LOSS if two tensors have the same name.
  static absl::StatusOr<WeightSource> Create(std::vector<TensorView> tensors,
                                             std::shared_ptr<const void> owner,
                                             ReleaseBytes release = nullptr);

  // Returns the tensors in ascending byte order of their names.
  const std::vector<TensorView>& tensors() const { return contents_->tensors; }
  // Returns null if there is no such tensor.
  const TensorView* Find(absl::string_view name) const;
  int64_t total_bytes() const { return contents_->total_bytes; }

  // Declares that nobody will read the bytes of `tensor`, which may be a view into a stored tensor,
  // any more. The bytes are then unspecified, also for copies of this source.
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

// Returns `name` as printable ASCII, cut at about 100 characters, for an error message.
std::string PrintableName(absl::string_view name);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_WEIGHT_SOURCE_H_
