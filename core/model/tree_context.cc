#include "core/model/tree_context.h"

#include <cstddef>
#include <vector>

#include "ATen/ops/cat.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/attention_dense.h"
#include "core/model/attention_path.h"
#include "core/model/attention_segmented.h"
#include "core/ops/index_upload.h"

namespace canopy {
namespace {

absl::Status CheckSlots(absl::Span<const int32_t> slots, int64_t num_slots) {
  for (const int32_t slot : slots) {
    if (slot < 0 || slot >= num_slots) {
      return absl::InvalidArgumentError(
          absl::StrCat("output slot ", slot, " is outside the plan's ", num_slots, " slots"));
    }
  }
  return absl::OkStatus();
}

// Adds what the backend reads beside tokens and positions, in the order that BindBackend expects.
absl::Status AddBackendArrays(const TreePlan& plan, IndexUpload& upload) {
  switch (plan.backend) {
    case Backend::kPath:
      return absl::OkStatus();
    case Backend::kDense:
      upload.Add(plan.grid.exit);
      return absl::OkStatus();
    case Backend::kSegmented:
      if (!plan.segments.has_value()) {
        return absl::InternalError("a segmented plan has no segments");
      }
      for (const SegmentGroup& group : plan.segments->groups) {
        upload.Add(group.query_index);
        upload.Add(group.ancestor_index);
      }
      upload.Add(plan.segments->restore_index);
      return absl::OkStatus();
    case Backend::kAuto:
    case Backend::kFused:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat("backend ", BackendName(plan.backend),
                                                    " does not run here; path, dense and segmented "
                                                    "do"));
}

std::unique_ptr<const AttentionBackend> BindSegmented(const SegmentPlan& segments,
                                                      absl::Span<const at::Tensor> arrays) {
  std::vector<DeviceSegmentGroup> groups;
  size_t next = 0;
  for (const SegmentGroup& group : segments.groups) {
    const at::Tensor queries = arrays[next].view({group.rows, group.query_length});
    const at::Tensor ancestors = arrays[next + 1].view({group.rows, group.start_depth});
    groups.push_back({queries, at::cat({ancestors, queries}, 1)});
    next += 2;
  }
  return std::make_unique<SegmentedAttention>(std::move(groups), arrays[next]);
}

std::unique_ptr<const AttentionBackend> BindBackend(const TreePlan& plan,
                                                    absl::Span<const at::Tensor> arrays,
                                                    at::ScalarType dtype) {
  const TokenGrid& grid = plan.grid;
  if (plan.backend == Backend::kDense) {
    return std::make_unique<DenseAttention>(arrays[0].view({grid.rows, grid.columns}), dtype);
  }
  if (plan.backend == Backend::kSegmented) {
    return BindSegmented(*plan.segments, arrays);
  }
  return std::make_unique<PathAttention>(grid.rows, grid.columns);
}

}  // namespace

absl::StatusOr<TreeContext> TreeContext::Create(const TreePlan& plan,
                                                absl::Span<const int32_t> output_slots,
                                                const RotaryFrequencies& frequencies,
                                                at::ScalarType dtype) {
  CANOPY_RETURN_IF_ERROR(CheckSlots(output_slots, plan.computed_tokens()));
  IndexUpload upload;
  const size_t token_ids = upload.Add(plan.grid.token_ids);
  const size_t position_ids = upload.Add(plan.grid.position_ids);
  const size_t outputs = upload.Add(output_slots);
  CANOPY_RETURN_IF_ERROR(AddBackendArrays(plan, upload));

  const std::vector<at::Tensor> arrays = upload.Upload(frequencies.inverse.device());
  TreeContext context;
  context.token_ids_ = arrays[token_ids];
  context.output_slots_ = arrays[outputs];
  context.rotary_ = MakeRotaryTables(arrays[position_ids], frequencies, dtype);
  context.attention_ = BindBackend(plan, absl::MakeConstSpan(arrays).subspan(outputs + 1), dtype);
  return context;
}

}  // namespace canopy
