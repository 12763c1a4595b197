#include "core/scoring/vectors.h"

#include <limits>

#include "ATen/ops/abs.h"
#include "ATen/ops/amax.h"
#include "ATen/ops/linalg_vector_norm.h"

namespace canopy {
namespace {

// Far below the norm of any row that is not zero.
constexpr double kSmallestNorm = 1e-30;

}  // namespace

at::Tensor EndpointVectors(const at::Tensor& hidden, at::ScalarType type, bool normalize) {
  at::Tensor vectors = hidden;
  if (normalize) {
    vectors = vectors.to(at::kFloat);
    const at::Tensor norms =
        at::linalg_vector_norm(vectors, 2, at::IntArrayRef{1}, /*keepdim=*/true);
    vectors = vectors.div(norms.clamp_min(kSmallestNorm));
  }
  return vectors.to(type).contiguous();
}

// The largest magnitude of a row with a NaN is NaN, which is not below infinity.
at::Tensor FiniteRows(const at::Tensor& rows) {
  return at::amax(at::abs(rows), 1).lt(std::numeric_limits<double>::infinity());
}

}  // namespace canopy
