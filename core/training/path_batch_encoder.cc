#include "core/training/path_batch_encoder.h"

#include <memory>
#include <utility>
#include <vector>

#include "ATen/ops/zeros.h"
#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "core/ops/index_upload.h"
#include "core/ops/torch_guard.h"
#include "core/tree/tree_plan.h"

namespace canopy {
namespace {

// Encodes the paths of a plan at their endpoints.
using PlanEncoder = absl::FunctionRef<absl::StatusOr<at::Tensor>(const TreePlan& plan)>;

// Runs every part of `plan` and writes each path's vector to row path_slot[path] of `vectors`
// [slots, hidden].
absl::Status EncodeParts(PlanEncoder encode, const RequestPlan& plan,
                         const std::vector<int32_t>& path_slot, const at::Tensor& vectors) {
  for (int32_t part = 0; part < plan.num_parts(); ++part) {
    const TreePlan tree = plan.BuildPart(part);
    CANOPY_ASSIGN_OR_RETURN(const at::Tensor encoded, encode(tree));
    std::vector<int32_t> slots;
    slots.reserve(tree.paths.size());
    for (const int32_t path : tree.paths) {
      slots.push_back(path_slot[path]);
    }
    IndexUpload upload;
    upload.Add(slots);
    vectors.index_copy_(0, upload.Upload(vectors.device()).front().to(at::kLong),
                        encoded.to(vectors.scalar_type()));
  }
  return absl::OkStatus();
}

// The properties that both kinds of encoder share.
struct EncoderTraits {
  int64_t hidden_size;
  at::TensorOptions placement;
};

absl::StatusOr<at::Tensor> EncodeBatch(PlanEncoder encode, const EncoderTraits& encoder,
                                       const PaddedPaths& padded, RouteOptions options,
                                       int64_t max_batch_tokens) {
  CANOPY_ASSIGN_OR_RETURN(PaddedImport import, ImportPaddedPaths(padded));
  options.hidden_size = static_cast<int32_t>(encoder.hidden_size);
  CANOPY_ASSIGN_OR_RETURN(
      const RequestPlan plan,
      RequestPlan::Create(std::make_shared<const PathBatch>(std::move(import.batch)), options,
                          max_batch_tokens));
  return GuardTorch("encoding a path batch", [&]() -> absl::StatusOr<at::Tensor> {
    const at::Tensor vectors =
        at::zeros({int64_t{padded.num_questions} * padded.max_candidates, encoder.hidden_size},
                  encoder.placement);
    CANOPY_RETURN_IF_ERROR(EncodeParts(encode, plan, import.path_slot, vectors));
    return vectors.view({padded.num_questions, padded.max_candidates, encoder.hidden_size});
  });
}

}  // namespace

absl::StatusOr<at::Tensor> EncodePathBatch(TreeEncoder& encoder, const PaddedPaths& padded,
                                           RouteOptions options, int64_t max_batch_tokens) {
  const c10::InferenceMode inference;
  return EncodeBatch(
      [&encoder](const TreePlan& plan) { return encoder.Encode(plan, plan.endpoints); },
      {encoder.config().hidden_size, encoder.options()}, padded, std::move(options),
      max_batch_tokens);
}

absl::StatusOr<at::Tensor> EncodePathBatch(const TrainableEncoder& encoder,
                                           const PaddedPaths& padded, RouteOptions options,
                                           int64_t max_batch_tokens,
                                           const TrainingOptions& training) {
  return EncodeBatch(
      [&](const TreePlan& plan) { return encoder.Encode(plan, plan.endpoints, training); },
      {encoder.config().hidden_size, encoder.options()}, padded, std::move(options),
      max_batch_tokens);
}

}  // namespace canopy
