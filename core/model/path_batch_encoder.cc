#include "core/model/path_batch_encoder.h"

#include <memory>
#include <utility>
#include <vector>

#include "ATen/ops/zeros.h"
#include "c10/core/InferenceMode.h"
#include "core/base/status_macros.h"
#include "core/ops/index_upload.h"
#include "core/ops/torch_guard.h"
#include "core/tree/tree_plan.h"

namespace canopy {
namespace {

// Runs every part of `plan` and puts its vectors where `path_slot` says in `vectors` [slots,
// hidden].
absl::Status EncodeParts(const TreeEncoder& encoder, const RequestPlan& plan,
                         const std::vector<int32_t>& path_slot, const at::Tensor& vectors) {
  for (int32_t part = 0; part < plan.num_parts(); ++part) {
    const TreePlan tree = plan.BuildPart(part);
    CANOPY_ASSIGN_OR_RETURN(const at::Tensor encoded, encoder.Encode(tree, tree.endpoints));
    std::vector<int32_t> slots;
    slots.reserve(tree.paths.size());
    for (const int32_t path : tree.paths) {
      slots.push_back(path_slot[path]);
    }
    IndexUpload upload;
    upload.Add(slots);
    vectors.index_copy_(0, upload.Upload(vectors.device()).front().to(at::kLong), encoded);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<at::Tensor> EncodePathBatch(const TreeEncoder& encoder, const PaddedPaths& padded,
                                           RouteOptions options, int64_t max_batch_tokens) {
  CANOPY_ASSIGN_OR_RETURN(PaddedImport import, ImportPaddedPaths(padded));
  const int64_t hidden_size = encoder.config().hidden_size;
  options.hidden_size = static_cast<int32_t>(hidden_size);
  CANOPY_ASSIGN_OR_RETURN(
      const RequestPlan plan,
      RequestPlan::Create(std::make_shared<const PathBatch>(std::move(import.batch)), options,
                          max_batch_tokens));
  return GuardTorch("encoding a path batch", [&]() -> absl::StatusOr<at::Tensor> {
    const c10::InferenceMode inference;
    const at::Tensor vectors = at::zeros(
        {int64_t{padded.num_questions} * padded.max_candidates, hidden_size}, encoder.options());
    CANOPY_RETURN_IF_ERROR(EncodeParts(encoder, plan, import.path_slot, vectors));
    return vectors.view({padded.num_questions, padded.max_candidates, hidden_size});
  });
}

}  // namespace canopy
