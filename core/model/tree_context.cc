#include "core/model/tree_context.h"

#include <atomic>
#include <cstddef>
#include <vector>

#include "ATen/ops/cat.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
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

absl::Status CheckDropout(const TrainingOptions& training) {
  const double dropout = training.attention_dropout;
  if (dropout >= 0 && dropout < 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("attention_dropout ", dropout, " is outside 0 <= p < 1"));
}

void WarnOfSharedDropout(Backend backend) {
  static std::atomic<bool> warned = false;
  if (!warned.exchange(true)) {
    LogWarning("shared_attention_dropout",
               {{"backend", BackendName(backend)},
                {"effect", "paths share the randomness of the nodes that they share"}});
  }
}

// Adds the backend's index arrays other than tokens and positions, in the order that BindBackend
// expects.
absl::Status AddBackendArrays(const TreePlan& plan, bool is_training, IndexUpload& upload) {
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
  return absl::FailedPreconditionError(
      absl::StrCat("backend ", BackendName(plan.backend),
                   is_training ? " computes no gradients" : " does not run here",
                   "; path, dense and segmented do"));
}

std::shared_ptr<const AttentionBackend> BindSegmented(const SegmentPlan& segments,
                                                      absl::Span<const at::Tensor> arrays,
                                                      double dropout) {
  std::vector<DeviceSegmentGroup> groups;
  size_t next = 0;
  for (const SegmentGroup& group : segments.groups) {
    const at::Tensor queries = arrays[next].view({group.rows, group.query_length});
    const at::Tensor ancestors = arrays[next + 1].view({group.rows, group.start_depth});
    groups.push_back({queries, at::cat({ancestors, queries}, 1)});
    next += 2;
  }
  return std::make_shared<SegmentedAttention>(std::move(groups), arrays[next], dropout);
}

std::shared_ptr<const AttentionBackend> BindBackend(const TreePlan& plan,
                                                    absl::Span<const at::Tensor> arrays,
                                                    at::ScalarType dtype, double dropout) {
  const TokenGrid& grid = plan.grid;
  if (plan.backend == Backend::kDense) {
    return std::make_shared<DenseAttention>(arrays[0].view({grid.rows, grid.columns}), dtype,
                                            dropout);
  }
  if (plan.backend == Backend::kSegmented) {
    return BindSegmented(*plan.segments, arrays, dropout);
  }
  return std::make_shared<PathAttention>(grid.rows, grid.columns, /*window=*/0, dropout);
}

}  // namespace

absl::Status CheckTokens(absl::Span<const int32_t> tokens, int64_t vocab_size) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, " is outside the vocabulary of ", vocab_size));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TreeContext> TreeContext::Create(const TreePlan& plan,
                                                absl::Span<const int32_t> output_slots,
                                                const TreeContextOptions& options) {
  CANOPY_RETURN_IF_ERROR(CheckSlots(output_slots, plan.computed_tokens()));
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  CANOPY_RETURN_IF_ERROR(CheckDropout(training));
  if (options.sliding_window > 0 && plan.backend != Backend::kPath) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", BackendName(plan.backend),
                     " has no sliding windows, which layers of this model need; path has"));
  }
  IndexUpload upload;
  const size_t token_ids = upload.Add(plan.grid.token_ids);
  const size_t position_ids = upload.Add(plan.grid.position_ids);
  const size_t outputs = upload.Add(output_slots);
  CANOPY_RETURN_IF_ERROR(AddBackendArrays(plan, options.training.has_value(), upload));
  const double dropout = training.attention_dropout;
  if (dropout > 0 && plan.backend != Backend::kPath) {
    WarnOfSharedDropout(plan.backend);
  }

  const std::vector<at::Tensor> arrays = upload.Upload(options.frequencies.inverse.device());
  TreeContext context;
  context.token_ids_ = arrays[token_ids];
  context.output_slots_ = arrays[outputs];
  context.rotary_ = MakeRotaryTables(arrays[position_ids], options.frequencies, options.dtype);
  context.attention_ =
      BindBackend(plan, absl::MakeConstSpan(arrays).subspan(outputs + 1), options.dtype, dropout);
  if (options.sliding_window > 0) {
    context.sliding_attention_ = std::make_shared<PathAttention>(plan.grid.rows, plan.grid.columns,
                                                                 options.sliding_window, dropout);
  }
  return context;
}

}  // namespace canopy
