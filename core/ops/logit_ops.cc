#include "core/ops/logit_ops.h"

#include "ATen/ops/amax.h"
#include "ATen/ops/amin.h"
#include "ATen/ops/bmm.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/logsumexp.h"
#include "c10/core/DeviceGuard.h"
#include "c10/util/Exception.h"
#include "core/ops/cuda_stream.h"
#include "kernels/device.h"
#include "kernels/logit_stats.h"

namespace canopy {
namespace {

bool KernelRunsOn(at::Device device) {
  if (!kernels::IsBuilt() || !kHasCudaStreams || !device.is_cuda()) {
    return false;
  }
  const c10::DeviceGuard guard(device);
  kernels::DeviceInfo info;
  return kernels::Init(&info) == cudaSuccess;
}

LogitStats ReadByKernel(const at::Tensor& logits, const LogitStatsOptions& options) {
  TORCH_CHECK(logits.scalar_type() == at::kFloat && logits.is_contiguous() && logits.dim() == 2,
              "logits: want dense rows of float32, got ", logits.scalar_type(), " ",
              logits.sizes());
  const c10::DeviceGuard guard(logits.device());
  LogitStats stats;
  kernels::LogitStatsParams params;
  const auto make = [&](bool wanted, at::Tensor* result) {
    if (!wanted) {
      return static_cast<float*>(nullptr);
    }
    *result = at::empty({logits.size(0)}, logits.options());
    return result->mutable_data_ptr<float>();
  };
  params.logits = logits.const_data_ptr<float>();
  params.inverse_temperature = 1 / options.temperature;
  params.log_sum_exp = make(options.log_sum_exp, &stats.log_sum_exp);
  params.entropy = make(options.entropy, &stats.entropy);
  params.min_logit = make(options.range, &stats.min_logit);
  params.max_logit = make(options.range, &stats.max_logit);
  params.rows = static_cast<int32_t>(logits.size(0));
  params.columns = static_cast<int32_t>(logits.size(1));
  const cudaError_t error = kernels::LaunchLogitStats(params, CurrentCudaStream());
  // torch_guard reads the text.
  TORCH_CHECK(error == cudaSuccess, "logit stats: CUDA error: ", kernels::ErrorText(error));
  return stats;
}

LogitStats ReadByLibTorch(const at::Tensor& logits, const LogitStatsOptions& options) {
  LogitStats stats;
  if (options.range) {
    // Not aminmax, which has no gradient.
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
    // A product of vectors keeps no third array.
    stats.entropy =
        stats.log_sum_exp.sub(at::bmm(shares.unsqueeze(1), scaled.unsqueeze(2)).flatten());
  }
  return stats;
}

}  // namespace

LogitReader::LogitReader(at::Device device) : has_kernel_(KernelRunsOn(device)) {}

LogitStats LogitReader::Read(const at::Tensor& logits, const LogitStatsOptions& options) const {
  return has_kernel_ && !logits.requires_grad() ? ReadByKernel(logits, options)
                                                : ReadByLibTorch(logits, options);
}

}  // namespace canopy
