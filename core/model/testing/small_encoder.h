// A small encoder with synthetic weights, and helpers for tests of encoders.
#ifndef CORE_MODEL_TESTING_SMALL_ENCODER_H_
#define CORE_MODEL_TESTING_SMALL_ENCODER_H_

#include <cstdint>
#include <memory>

#include "core/model/tree_encoder.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"
#include "core/tree/tree_plan.h"

namespace canopy {

inline constexpr int64_t kSmallHidden = 24;
inline constexpr int64_t kSmallVocab = 29;

// Weights are twenty times as large as MakeSyntheticWeights makes them, so that layers change the
// result measurably. The embedding of `nan_token` is NaN; -1 means no NaN. Limits LibTorch to one
// thread.
std::unique_ptr<TreeEncoder> MakeSmallEncoder(int64_t nan_token = -1);

// Returns the plan of the whole batch as one part.
TreePlan PlanSmall(const std::shared_ptr<const PathBatch>& batch, Backend backend,
                   Packing packing = Packing::kAuto);

// Returns the endpoint vectors in the order of the request's paths.
at::Tensor EncodeInRequestOrder(TreeEncoder& encoder, const TreePlan& plan);

// Returns the largest relative error of any row, in the 2-norm.
double LargestRelativeError(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace canopy

#endif  // CORE_MODEL_TESTING_SMALL_ENCODER_H_
