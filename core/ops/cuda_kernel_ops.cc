#include "core/ops/cuda_kernel_ops.h"

#include <cstdint>
#include <utility>

#include "ATen/ops/addmm.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mm.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/DeviceGuard.h"
#include "c10/util/Exception.h"
#include "core/ops/cuda_stream.h"
#include "kernels/attention/tree_attention.h"
#include "kernels/device.h"
#include "kernels/product/gated_product.h"
#include "kernels/product/head_product.h"
#include "kernels/rows/qk_norm_rope.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/rows/row_gather.h"
#include "kernels/rows/silu_mul.h"

namespace canopy {
namespace {

// Limits of the kernels that process rows: column counts are multiples of 8, up to a maximum.
constexpr int64_t kKernelColumns = 8;
constexpr int64_t kMaxNormColumns = 32'768;

kernels::DataType DataTypeOf(at::ScalarType dtype) {
  return dtype == at::kHalf ? kernels::DataType::kFloat16 : kernels::DataType::kBFloat16;
}

kernels::TreeAttentionShape AttentionShape(const KernelModel& model, at::ScalarType dtype,
                                           const ForestShape& forest) {
  kernels::TreeAttentionShape shape;
  shape.num_tokens = forest.num_tokens;
  shape.num_query_heads = static_cast<int32_t>(model.num_query_heads);
  shape.num_kv_heads = static_cast<int32_t>(model.num_kv_heads);
  shape.head_dim = static_cast<int32_t>(model.head_dim);
  shape.max_path_tokens = forest.max_path_tokens;
  shape.visible_pairs = forest.visible_pairs;
  shape.data_type = DataTypeOf(dtype);
  return shape;
}

// Checks that the kernels support the model, independent of the device.
absl::Status CheckModel(const KernelModel& model, at::ScalarType dtype) {
  if (dtype != at::kBFloat16 && dtype != at::kHalf) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernels take bfloat16 and float16, not ", c10::toString(dtype)));
  }
  if (model.hidden_size % kKernelColumns != 0 || model.hidden_size > kMaxNormColumns ||
      model.intermediate_size % kKernelColumns != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernels take sizes in multiples of ", kKernelColumns, ", hidden at most ",
                     kMaxNormColumns, ", not hidden ", model.hidden_size, ", intermediate ",
                     model.intermediate_size));
  }
  if (!kernels::IsSupported(AttentionShape(model, dtype, {1, 1, 1}))) {
    return absl::FailedPreconditionError(
        absl::StrCat("tree attention takes heads of 64 and 128 and up to 8 query heads a kv head, "
                     "not ",
                     model.num_query_heads, " on ", model.num_kv_heads, " of ", model.head_dim));
  }
  return absl::OkStatus();
}

// The error text must say "CUDA error", because torch_guard classifies errors by their text.
void CheckLaunch(cudaError_t error, const char* kernel) {
  TORCH_CHECK(error == cudaSuccess, kernel, ": CUDA error: ", kernels::ErrorText(error));
}

void CheckDense(const at::Tensor& tensor, at::ScalarType dtype, const char* name) {
  TORCH_CHECK(tensor.is_cuda() && tensor.scalar_type() == dtype && tensor.is_contiguous(), name,
              ": wants a dense CUDA tensor of ", dtype, ", got ", tensor.scalar_type(), " ",
              tensor.sizes(), " on ", tensor.device());
}

void CheckShape(const at::Tensor& tensor, at::IntArrayRef sizes, const char* name) {
  TORCH_CHECK(tensor.sizes() == sizes, name, ": wants ", sizes, ", got ", tensor.sizes());
}

class CudaKernelOps : public KernelOps {
 public:
  CudaKernelOps(const KernelModel& model, at::ScalarType dtype, const kernels::DeviceInfo& device)
      : model_(model), dtype_(dtype), data_type_(DataTypeOf(dtype)), device_(device) {}

  void GatherRows(const at::Tensor& source, const at::Tensor& indices,
                  const at::Tensor& out) const override {
    CheckDense(source, dtype_, "source");
    CheckDense(indices, at::kInt, "indices");
    CheckDense(out, dtype_, "out");
    CheckShape(out, {indices.size(0), source.size(1)}, "out");
    kernels::RowGatherParams params;
    params.source = source.const_data_ptr();
    params.indices = indices.const_data_ptr<int32_t>();
    params.out = out.mutable_data_ptr();
    params.source_stride_bytes = source.size(1) * source.element_size();
    params.rows = static_cast<int32_t>(indices.size(0));
    params.row_bytes = static_cast<int32_t>(params.source_stride_bytes);
    CheckLaunch(kernels::LaunchRowGather(params, CurrentCudaStream()), "row gather");
  }

  void RmsNorm(const at::Tensor& rows, const at::Tensor& weight,
               const at::Tensor& out) const override {
    CheckDense(rows, dtype_, "rows");
    CheckDense(weight, dtype_, "weight");
    CheckDense(out, dtype_, "out");
    CheckShape(weight, {rows.size(1)}, "weight");
    CheckShape(out, rows.sizes(), "out");
    kernels::RmsNormParams params;
    params.residual = rows.mutable_data_ptr();
    params.weight = weight.const_data_ptr();
    params.out = out.mutable_data_ptr();
    params.rows = static_cast<int32_t>(rows.size(0));
    params.columns = static_cast<int32_t>(rows.size(1));
    params.epsilon = static_cast<float>(model_.rms_norm_eps);
    params.data_type = data_type_;
    CheckLaunch(kernels::LaunchRmsNorm(params, CurrentCudaStream()), "RMS norm");
  }

  void ProjectHeads(const at::Tensor& rows, const HeadProjection& projection,
                    const at::Tensor& position_ids, const at::Tensor& qkv) const override {
    CheckProjection(rows, projection);
    CheckQkv(qkv);
    CheckDense(position_ids, at::kInt, "position_ids");
    CheckShape(position_ids, {qkv.size(0)}, "position_ids");
    if (!HasProducts()) {
      Multiply(rows, projection.weight, projection.bias, qkv);
      NormAndRotate(projection, position_ids, qkv);
      return;
    }
    kernels::HeadProductParams params;
    params.rows = rows.const_data_ptr();
    params.weight = projection.weight.const_data_ptr();
    params.bias = DataOrNull(projection.bias);
    params.q_weight = HeadNorm(projection, 0);
    params.k_weight = HeadNorm(projection, model_.num_query_heads);
    params.position_ids = position_ids.const_data_ptr<int32_t>();
    params.inverse_frequencies = model_.inverse_frequencies.const_data_ptr<float>();
    params.out = qkv.mutable_data_ptr();
    params.num_rows = static_cast<int32_t>(rows.size(0));
    params.inner = static_cast<int32_t>(rows.size(1));
    params.num_query_heads = static_cast<int32_t>(model_.num_query_heads);
    params.num_kv_heads = static_cast<int32_t>(model_.num_kv_heads);
    params.head_dim = static_cast<int32_t>(model_.head_dim);
    params.epsilon = static_cast<float>(model_.rms_norm_eps);
    params.data_type = data_type_;
    params.num_multiprocessors = device_.num_multiprocessors;
    CheckLaunch(kernels::LaunchHeadProduct(params, CurrentCudaStream()), "head product");
  }

  void GatedProduct(const at::Tensor& rows, const at::Tensor& gate_up, const at::Tensor& scratch,
                    const at::Tensor& out) const override {
    CheckDense(rows, dtype_, "rows");
    CheckDense(gate_up, dtype_, "gate_up");
    CheckDense(out, dtype_, "out");
    CheckShape(gate_up, {gate_up.size(0), rows.size(1)}, "gate_up");
    CheckShape(out, {rows.size(0), gate_up.size(0) / 2}, "out");
    if (!HasProducts()) {
      CheckDense(scratch, dtype_, "scratch");
      CheckShape(scratch, {rows.size(0), gate_up.size(0)}, "scratch");
      Multiply(rows, gate_up, at::Tensor(), scratch);
      SiluMul(scratch, out);
      return;
    }
    kernels::GatedProductParams params;
    params.rows = rows.const_data_ptr();
    params.weight = gate_up.const_data_ptr();
    params.out = out.mutable_data_ptr();
    params.num_rows = static_cast<int32_t>(rows.size(0));
    params.columns = static_cast<int32_t>(out.size(1));
    params.inner = static_cast<int32_t>(rows.size(1));
    params.data_type = data_type_;
    params.num_multiprocessors = device_.num_multiprocessors;
    CheckLaunch(kernels::LaunchGatedProduct(params, CurrentCudaStream()), "gated product");
  }

  int64_t GatedScratchColumns() const override {
    return HasProducts() ? 0 : 2 * model_.intermediate_size;
  }

  at::Tensor ListVisible(const at::Tensor& exit, const ForestShape& shape) const override {
    CheckDense(exit, at::kInt, "exit");
    CheckShape(exit, {shape.num_tokens}, "exit");
    kernels::TreeVisibilityParams params;
    params.exit = exit.const_data_ptr<int32_t>();
    params.shape = AttentionShape(model_, dtype_, shape);
    params.instance = Instance(params.shape);
    at::Tensor workspace =
        at::empty({kernels::LayOutWorkspace(params.shape, params.instance).total_bytes},
                  exit.options().dtype(at::kByte));
    params.workspace = workspace.mutable_data_ptr();
    CheckLaunch(kernels::LaunchTreeVisibility(params, CurrentCudaStream()), "tree visibility");
    return workspace;
  }

  void TreeAttention(const at::Tensor& qkv, const at::Tensor& visible, const ForestShape& shape,
                     const at::Tensor& out) const override {
    CheckQkv(qkv);
    CheckDense(visible, at::kByte, "visible");
    CheckDense(out, dtype_, "out");
    CheckShape(out, {shape.num_tokens, model_.query_size()}, "out");
    TORCH_CHECK(qkv.size(0) == shape.num_tokens, "qkv: ", qkv.size(0), " tokens, wants ",
                shape.num_tokens);
    kernels::TreeAttentionParams params;
    params.shape = AttentionShape(model_, dtype_, shape);
    params.instance = Instance(params.shape);
    TORCH_CHECK(
        visible.numel() == kernels::LayOutWorkspace(params.shape, params.instance).total_bytes,
        "visible: made for another shape");
    params.q = Heads(qkv, 0);
    params.k = Heads(qkv, model_.query_size());
    params.v = Heads(qkv, model_.query_size() + model_.kv_size());
    params.q_strides = {qkv.size(1), model_.head_dim};
    params.k_strides = params.q_strides;
    params.v_strides = params.q_strides;
    params.out = out.mutable_data_ptr();
    params.out_strides = {out.size(1), model_.head_dim};
    params.workspace = visible.mutable_data_ptr();
    params.num_multiprocessors = device_.num_multiprocessors;
    params.scale = static_cast<float>(model_.score_scale);
    CheckLaunch(kernels::LaunchTreeAttention(params, CurrentCudaStream()), "tree attention");
  }

 private:
  // Returns true if this device can run products with fused epilogues.
  bool HasProducts() const { return device_.compute_capability == 90; }

  static const void* DataOrNull(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
  }

  // Returns the norm weight of a query or key head, or null if heads are not normalized.
  const void* HeadNorm(const HeadProjection& projection, int64_t head) const {
    const at::Tensor& norms = projection.qk_norm;
    return norms.defined() ? static_cast<const uint8_t*>(norms.const_data_ptr()) +
                                 head * model_.head_dim * norms.element_size()
                           : nullptr;
  }

  // Computes out = rows x weight^T, plus bias if it is defined.
  static void Multiply(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
                       at::Tensor out) {
    if (bias.defined()) {
      at::addmm_out(out, bias, rows, weight.t());
    } else {
      at::mm_out(out, rows, weight.t());
    }
  }

  void NormAndRotate(const HeadProjection& projection, const at::Tensor& position_ids,
                     const at::Tensor& qkv) const {
    kernels::QkNormRopeParams params;
    params.q = Heads(qkv, 0);
    params.k = Heads(qkv, model_.query_size());
    params.q_weight = HeadNorm(projection, 0);
    params.k_weight = HeadNorm(projection, model_.num_query_heads);
    params.position_ids = position_ids.const_data_ptr<int32_t>();
    params.inverse_frequencies = model_.inverse_frequencies.const_data_ptr<float>();
    params.q_token_stride = qkv.size(1);
    params.k_token_stride = qkv.size(1);
    params.num_tokens = static_cast<int32_t>(qkv.size(0));
    params.num_query_heads = static_cast<int32_t>(model_.num_query_heads);
    params.num_kv_heads = static_cast<int32_t>(model_.num_kv_heads);
    params.head_dim = static_cast<int32_t>(model_.head_dim);
    params.epsilon = static_cast<float>(model_.rms_norm_eps);
    params.data_type = data_type_;
    CheckLaunch(kernels::LaunchQkNormRope(params, CurrentCudaStream()), "query and key norm, RoPE");
  }

  void SiluMul(const at::Tensor& gate_up, const at::Tensor& out) const {
    kernels::SiluMulParams params;
    params.gate_up = gate_up.const_data_ptr();
    params.out = out.mutable_data_ptr();
    params.rows = static_cast<int32_t>(gate_up.size(0));
    params.columns = static_cast<int32_t>(gate_up.size(1) / 2);
    params.data_type = data_type_;
    CheckLaunch(kernels::LaunchSiluMul(params, CurrentCudaStream()), "SiLU");
  }

  void CheckProjection(const at::Tensor& rows, const HeadProjection& projection) const {
    CheckDense(rows, dtype_, "rows");
    CheckDense(projection.weight, dtype_, "weight");
    const int64_t columns = model_.query_size() + 2 * model_.kv_size();
    CheckShape(projection.weight, {columns, rows.size(1)}, "weight");
    if (projection.bias.defined()) {
      CheckDense(projection.bias, dtype_, "bias");
      CheckShape(projection.bias, {columns}, "bias");
    }
    if (projection.qk_norm.defined()) {
      CheckDense(projection.qk_norm, dtype_, "qk_norm");
      CheckShape(projection.qk_norm,
                 {model_.num_query_heads + model_.num_kv_heads, model_.head_dim}, "qk_norm");
    }
  }

  void CheckQkv(const at::Tensor& qkv) const {
    CheckDense(qkv, dtype_, "qkv");
    CheckShape(qkv, {qkv.size(0), model_.query_size() + 2 * model_.kv_size()}, "qkv");
  }

  // Returns the address of the element at `column` in the first token's row.
  static void* Heads(const at::Tensor& qkv, int64_t column) {
    return static_cast<uint8_t*>(qkv.mutable_data_ptr()) + column * qkv.element_size();
  }

  kernels::TreeAttentionInstance Instance(const kernels::TreeAttentionShape& shape) const {
    return kernels::ChooseInstance(shape, device_.compute_capability, device_.num_multiprocessors);
  }

  const KernelModel model_;
  const at::ScalarType dtype_;
  const kernels::DataType data_type_;
  const kernels::DeviceInfo device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const KernelOps>> MakeCudaKernelOps(
    const KernelModel& model, const at::TensorOptions& options) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  CANOPY_RETURN_IF_ERROR(CheckModel(model, dtype));
  if (!kernels::IsBuilt() || !kHasCudaStreams) {
    return absl::FailedPreconditionError("this build has no CUDA kernels");
  }
  if (!options.device().is_cuda()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernels run on CUDA, not on ", options.device().str()));
  }
  CheckDense(model.inverse_frequencies, at::kFloat, "inverse_frequencies");
  CheckShape(model.inverse_frequencies, {model.head_dim / 2}, "inverse_frequencies");
  const c10::DeviceGuard guard(options.device());
  kernels::DeviceInfo device;
  if (const cudaError_t error = kernels::Init(&device); error != cudaSuccess) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the kernels do not run on ", options.device().str(), ": ", kernels::ErrorText(error)));
  }
  return std::make_unique<const CudaKernelOps>(model, dtype, device);
}

}  // namespace canopy
