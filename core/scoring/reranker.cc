#include "core/scoring/reranker.h"

#include "ATen/ops/linear.h"
#include "ATen/ops/softmax.h"
#include "ATen/ops/stack.h"
#include "absl/status/status.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "core/checkpoint/head_settings.h"
#include "core/model/weights.h"
#include "core/ops/torch_guard.h"

namespace canopy {
namespace {

// Returns row `index` of a matrix as a vector.
TensorView RowOf(const TensorView& matrix, int64_t index) {
  const auto row_bytes = static_cast<size_t>(matrix.shape[1] * DTypeBytes(matrix.dtype));
  TensorView row = matrix;
  row.shape = {matrix.shape[1]};
  row.bytes = matrix.bytes.subspan(static_cast<size_t>(index) * row_bytes, row_bytes);
  return row;
}

}  // namespace

absl::StatusOr<YesNoHead> YesNoHead::Load(const TensorView& vocabulary,
                                          const RerankerTokens& tokens, at::Device device) {
  CANOPY_RETURN_IF_ERROR(CheckRerankerTokens(tokens, vocabulary.shape[0]));
  return GuardTorch("loading the reranker head", [&]() -> absl::StatusOr<YesNoHead> {
    const c10::InferenceMode inference;
    const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
    return YesNoHead(at::stack({UploadWeight(RowOf(vocabulary, tokens.yes), options),
                                UploadWeight(RowOf(vocabulary, tokens.no), options)}));
  });
}

at::Tensor YesNoHead::Score(const at::Tensor& hidden) const {
  return at::softmax(at::linear(hidden.to(at::kFloat), rows_), 1).narrow(1, 0, 1).contiguous();
}

}  // namespace canopy
