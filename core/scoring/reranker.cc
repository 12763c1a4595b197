#include "core/scoring/reranker.h"

#include "ATen/ops/linear.h"
#include "ATen/ops/softmax.h"
#include "ATen/ops/stack.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "c10/core/InferenceMode.h"
#include "core/model/weights.h"
#include "core/ops/torch_guard.h"

namespace canopy {
namespace {

// Row `index` of a matrix, as a vector.
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
  for (const int64_t token : {tokens.yes, tokens.no}) {
    if (token < 0 || token >= vocabulary.shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "reranker token ", token, " is outside the vocabulary of ", vocabulary.shape[0]));
    }
  }
  if (tokens.yes == tokens.no) {
    return absl::InvalidArgumentError(
        absl::StrCat("reranker tokens: yes and no are both ", tokens.yes));
  }
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
