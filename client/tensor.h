// Reads the elements of a canopy.v1.Tensor, for every element type and byte order of the host.
#ifndef CLIENT_TENSOR_H_
#define CLIENT_TENSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "canopy/v1/types.pb.h"

namespace canopy::client {

// Returns the bytes of one element; 0 for a type that this client does not know.
size_t BytesPerElement(v1::DType dtype);

// Returns the element at `index` of little-endian `data`, which must contain (index + 1) elements
// of a known `dtype`.
float ElementAt(absl::string_view data, v1::DType dtype, size_t index);

// Returns whether all elements of little-endian `data` of a known `dtype` are finite. Reads only
// the exponents, because answers may contain hundreds of megabytes.
bool AllFinite(absl::string_view data, v1::DType dtype);

}  // namespace canopy::client

#endif  // CLIENT_TENSOR_H_
