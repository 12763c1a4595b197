#include "core/ops/logit_ops.h"

#include <algorithm>
#include <vector>

#include "ATen/ops/amax.h"
#include "ATen/ops/amin.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/bmm.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/logsumexp.h"
#include "c10/core/DeviceGuard.h"
#include "c10/util/Exception.h"
#include "core/ops/cuda_stream.h"
#include "kernels/device.h"
#include "kernels/product/logit_product.h"
#include "kernels/product/logit_ranks.h"
#include "kernels/product/logit_stats.h"

namespace canopy {
namespace {

// Allocates the requested results and sets their pointers in a kernel's `Params`.
template <typename Params>
LogitStats MakeStats(int64_t rows, const at::TensorOptions& device,
                     const LogitStatsOptions& options, Params* params) {
  LogitStats stats;
  const auto make = [&](bool wanted, at::Tensor* result) {
    if (!wanted) {
      return static_cast<float*>(nullptr);
    }
    *result = at::empty({rows}, device.dtype(at::kFloat));
    return result->mutable_data_ptr<float>();
  };
  params->inverse_temperature = 1 / options.temperature;
  params->log_sum_exp = make(options.log_sum_exp, &stats.log_sum_exp);
  params->entropy = make(options.entropy, &stats.entropy);
  params->min_logit = make(options.range, &stats.min_logit);
  params->max_logit = make(options.range, &stats.max_logit);
  return stats;
}

// The error text must say "CUDA error", because torch_guard classifies errors by their text.
void CheckLaunch(cudaError_t error, const char* kernel) {
  TORCH_CHECK(error == cudaSuccess, kernel, ": CUDA error: ", kernels::ErrorText(error));
}

LogitStats ReadByKernel(const at::Tensor& logits, const LogitStatsOptions& options) {
  TORCH_CHECK(logits.scalar_type() == at::kFloat && logits.is_contiguous() && logits.dim() == 2,
              "logits: want dense rows of float32, got ", logits.scalar_type(), " ",
              logits.sizes());
  if (!options.log_sum_exp && !options.entropy && !options.range) {
    return {};
  }
  const c10::DeviceGuard guard(logits.device());
  kernels::LogitStatsParams params;
  LogitStats stats = MakeStats(logits.size(0), logits.options(), options, &params);
  params.logits = logits.const_data_ptr<float>();
  params.rows = static_cast<int32_t>(logits.size(0));
  params.columns = static_cast<int32_t>(logits.size(1));
  CheckLaunch(kernels::LaunchLogitStats(params, CurrentCudaStream()), "logit stats");
  return stats;
}

LogitStats ReadByLibTorch(const at::Tensor& logits, const LogitStatsOptions& options) {
  LogitStats stats;
  if (options.range) {
    // amin and amax are used because aminmax has no gradient.
    stats.min_logit = at::amin(logits, {1});
    stats.max_logit = at::amax(logits, {1});
  }
  if (!options.log_sum_exp && !options.entropy) {
    return stats;
  }
  const at::Tensor scaled = options.temperature == 1 ? logits : logits.div(options.temperature);
  stats.log_sum_exp = at::logsumexp(scaled, {1});
  if (options.entropy) {
    const at::Tensor shares = scaled.sub(stats.log_sum_exp.unsqueeze(1)).exp_();
    // A batched dot product needs no third array of this size.
    stats.entropy =
        stats.log_sum_exp.sub(at::bmm(shares.unsqueeze(1), scaled.unsqueeze(2)).flatten());
  }
  return stats;
}

at::Tensor RanksByKernel(const at::Tensor& logits, const LogitTargets& targets) {
  const c10::DeviceGuard guard(logits.device());
  const at::Tensor rows = targets.rows.to(at::kInt);
  const at::Tensor tokens = targets.tokens.to(at::kInt);
  at::Tensor ranks = at::empty({rows.size(0)}, rows.options());
  kernels::LogitRanksParams params;
  params.logits = logits.const_data_ptr<float>();
  params.target_rows = rows.const_data_ptr<int32_t>();
  params.target_columns = tokens.const_data_ptr<int32_t>();
  params.ranks = ranks.mutable_data_ptr<int32_t>();
  params.columns = static_cast<int32_t>(logits.size(1));
  params.num_targets = static_cast<int32_t>(rows.size(0));
  CheckLaunch(kernels::LaunchLogitRanks(params, CurrentCudaStream()), "logit ranks");
  return ranks;
}

// Returns the rank of one target in each of `rows` [targets, vocab], which is overwritten.
// tokens [targets, 1].
at::Tensor RanksOfRows(const at::Tensor& rows, const at::Tensor& tokens) {
  const at::Tensor own = rows.gather(1, tokens);
  at::Tensor is_before = at::arange(rows.size(1), tokens.options()).unsqueeze(0).lt(tokens);
  is_before.logical_and_(rows.eq(own)).logical_or_(rows.gt(own));
  const at::Tensor ranks = is_before.sum({1}, /*keepdim=*/false, at::kInt).add_(1);
  // A non-finite logit minus itself is NaN, which marks its row.
  return ranks.masked_fill(rows.sub_(rows).eq(0).all(1).logical_not_(), -1);
}

// Ranks as many targets at a time as there are rows of logits, so that scratch memory does not grow
// with the number of targets per row.
at::Tensor RanksByLibTorch(const at::Tensor& logits, const LogitTargets& targets) {
  std::vector<at::Tensor> ranks = {at::empty({0}, targets.rows.options().dtype(at::kInt))};
  for (int64_t begin = 0; begin < targets.rows.size(0); begin += logits.size(0)) {
    const int64_t count = std::min(logits.size(0), targets.rows.size(0) - begin);
    ranks.push_back(RanksOfRows(logits.index_select(0, targets.rows.narrow(0, begin, count)),
                                targets.tokens.narrow(0, begin, count).unsqueeze(1)));
  }
  return at::cat(ranks);
}

}  // namespace

LogitReader::LogitReader(at::Device device) {
  if (!kernels::IsBuilt() || !kHasCudaStreams || !device.is_cuda()) {
    return;
  }
  const c10::DeviceGuard guard(device);
  kernels::DeviceInfo info;
  has_kernel_ = kernels::Init(&info) == cudaSuccess;
  has_product_ = has_kernel_ && info.compute_capability == 90;
  num_multiprocessors_ = info.num_multiprocessors;
}

bool LogitReader::ReadsProductsWith(const at::Tensor& weight) const {
  const bool is_narrow = weight.scalar_type() == at::kBFloat16 || weight.scalar_type() == at::kHalf;
  return has_product_ && is_narrow && weight.is_contiguous() && weight.size(1) % 8 == 0;
}

LogitStats LogitReader::ReadProduct(const at::Tensor& hidden, const at::Tensor& weight,
                                    const LogitTargets& targets, const LogitStatsOptions& options,
                                    at::Tensor* target_logits) const {
  TORCH_CHECK(ReadsProductsWith(weight) && hidden.scalar_type() == weight.scalar_type() &&
                  hidden.is_contiguous() && hidden.size(1) == weight.size(1),
              "logit product: want dense rows of ", weight.size(1), " ", weight.scalar_type(),
              ", got ", hidden.scalar_type(), " ", hidden.sizes());
  const c10::DeviceGuard guard(hidden.device());
  const at::Tensor rows = targets.rows.to(at::kInt);
  const at::Tensor tokens = targets.tokens.to(at::kInt);
  const at::Tensor workspace =
      at::empty({kernels::LogitProductWorkspaceBytes(hidden.size(0), weight.size(0))},
                hidden.options().dtype(at::kByte));
  *target_logits = at::empty({rows.size(0)}, hidden.options().dtype(at::kFloat));
  kernels::LogitProductParams params;
  LogitStats stats = MakeStats(hidden.size(0), hidden.options(), options, &params);
  params.rows = hidden.const_data_ptr();
  params.weight = weight.const_data_ptr();
  params.target_rows = rows.const_data_ptr<int32_t>();
  params.target_columns = tokens.const_data_ptr<int32_t>();
  params.workspace = workspace.mutable_data_ptr();
  params.target_logits = target_logits->mutable_data_ptr<float>();
  params.num_rows = static_cast<int32_t>(hidden.size(0));
  params.columns = static_cast<int32_t>(weight.size(0));
  params.inner = static_cast<int32_t>(weight.size(1));
  params.num_targets = static_cast<int32_t>(rows.size(0));
  params.data_type = weight.scalar_type() == at::kHalf ? kernels::DataType::kFloat16
                                                       : kernels::DataType::kBFloat16;
  params.num_multiprocessors = num_multiprocessors_;
  CheckLaunch(kernels::LaunchLogitProduct(params, CurrentCudaStream()), "logit product");
  return stats;
}

int64_t LogitReader::ProductRowBytes(const at::Tensor& weight) {
  return kernels::LogitProductWorkspaceBytes(1, weight.size(0)) +
         weight.size(1) * weight.element_size();
}

LogitStats LogitReader::Read(const at::Tensor& logits, const LogitStatsOptions& options) const {
  return has_kernel_ && !logits.requires_grad() ? ReadByKernel(logits, options)
                                                : ReadByLibTorch(logits, options);
}

at::Tensor LogitReader::Ranks(const at::Tensor& logits, const LogitTargets& targets) const {
  TORCH_CHECK(logits.scalar_type() == at::kFloat && logits.is_contiguous() && logits.dim() == 2,
              "logits: want dense rows of float32, got ", logits.scalar_type(), " ",
              logits.sizes());
  return has_kernel_ ? RanksByKernel(logits, targets) : RanksByLibTorch(logits, targets);
}

}  // namespace canopy
