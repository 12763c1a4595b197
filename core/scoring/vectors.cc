#include "core/scoring/vectors.h"

#include <limits>

#include "ATen/ops/abs.h"
#include "ATen/ops/amax.h"
#include "ATen/ops/amin.h"
#include "ATen/ops/linalg_vector_norm.h"

namespace canopy {
namespace {

// Divides by the largest magnitude first, because the squares of very large or very small elements
// leave float32's range. 0 / 0 makes a row of zeros NaN.
at::Tensor Normalize(const at::Tensor& vectors) {
  const at::Tensor scaled = vectors.div(at::amax(at::abs(vectors), 1, /*keepdim=*/true));
  return scaled.div(at::linalg_vector_norm(scaled, 2, at::IntArrayRef{1}, /*keepdim=*/true));
}

}  // namespace

at::Tensor EndpointVectors(const at::Tensor& hidden, at::ScalarType type, bool normalize) {
  const at::Tensor vectors = normalize ? Normalize(hidden.to(at::kFloat)) : hidden;
  return vectors.to(type).contiguous();
}

// The extremes of a row with a NaN are NaN, so checking them is enough. Computing the magnitudes of
// all elements would need a second array of the size of `rows`.
at::Tensor FiniteRows(const at::Tensor& rows) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return at::amax(rows, 1).lt(kInfinity).logical_and_(at::amin(rows, 1).gt(-kInfinity));
}

}  // namespace canopy
