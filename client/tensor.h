// Reads the elements of a canopy.v1.Tensor, whatever its element type and the host's byte order.
#ifndef CLIENT_TENSOR_H_
#define CLIENT_TENSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Bytes of one element; 0 for a type that this client does not know.
size_t BytesPerElement(v1::DType dtype);

// The element at `index` of little-endian `data`, which must hold (index + 1) elements of a known
// `dtype`.
float ElementAt(absl::string_view data, v1::DType dtype, size_t index);

// Whether all elements of little-endian `data` of a known `dtype` are finite. Looks only at the
// exponents: answers hold hundreds of megabytes.
bool AllFinite(absl::string_view data, v1::DType dtype);

}  // namespace canopy::client

#endif  // CLIENT_TENSOR_H_
