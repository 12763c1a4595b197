// Replaces the kernels in a build without nvcc. Every launch returns cudaErrorNotSupported.
#include "kernels/attention/tree_attention.h"
#include "kernels/device.h"
#include "kernels/product/gated_product.h"
#include "kernels/product/head_product.h"
#include "kernels/product/logit_product.h"
#include "kernels/product/logit_ranks.h"
#include "kernels/product/logit_stats.h"
#include "kernels/rows/qk_norm_rope.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/row_gather.h"
#include "kernels/rows/silu_mul.h"

namespace canopy::kernels {

bool IsBuilt() { return false; }

const char* ErrorText(cudaError_t /*error*/) { return "the kernels were not built"; }

cudaError_t Init(DeviceInfo* /*device*/) { return cudaErrorNotSupported; }

cudaError_t LaunchTreeVisibility(const TreeVisibilityParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchTreeAttention(const TreeAttentionParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchRmsNorm(const RmsNormParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchQkNormRope(const QkNormRopeParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchSiluMul(const SiluMulParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchGatedProduct(const GatedProductParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchHeadProduct(const HeadProductParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
int64_t LogitProductWorkspaceBytes(int64_t /*num_rows*/, int64_t /*columns*/) { return 0; }
cudaError_t LaunchLogitProduct(const LogitProductParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchRowGather(const RowGatherParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchLogitRanks(const LogitRanksParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t LaunchLogitStats(const LogitStatsParams& /*params*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}

}  // namespace canopy::kernels
