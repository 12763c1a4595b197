#include "core/ops/reference_kernel_ops.h"

#include <cstdint>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "kernels/reference/layer_reference.h"
#include "kernels/reference/tree_attention_reference.h"

namespace canopy {
namespace {

std::vector<double> Values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  const double* begin = values.const_data_ptr<double>();
  return {begin, begin + values.numel()};
}

void Store(std::vector<double> values, const at::Tensor& target) {
  target.copy_(at::from_blob(values.data(), target.sizes(), at::kDouble));
}

class ReferenceKernelOps : public KernelOps {
 public:
  explicit ReferenceKernelOps(const KernelModel& model) : model_(model) {}

  void GatherRows(const at::Tensor& source, const at::Tensor& indices,
                  const at::Tensor& out) const override {
    out.copy_(source.index_select(0, indices));
  }

  void RmsNorm(const at::Tensor& rows, const at::Tensor& weight,
               const at::Tensor& out) const override {
    for (int64_t row = 0; row < rows.size(0); ++row) {
      Store(kernels::reference::RmsNorm(Values(rows[row]), Values(weight), model_.rms_norm_eps),
            out[row]);
    }
  }

  void QkNormRope(const at::Tensor& qkv, const at::Tensor& q_norm, const at::Tensor& k_norm,
                  const at::Tensor& position_ids) const override {
    const float* frequencies = model_.inverse_frequencies.const_data_ptr<float>();
    const std::vector<float> inverse_frequencies(frequencies, frequencies + model_.head_dim / 2);
    const at::Tensor heads = qkv.unflatten(1, {-1, model_.head_dim});
    for (int64_t token = 0; token < heads.size(0); ++token) {
      for (int64_t head = 0; head < model_.num_query_heads + model_.num_kv_heads; ++head) {
        const at::Tensor values = heads[token][head];
        const at::Tensor& weight = head < model_.num_query_heads ? q_norm : k_norm;
        Store(kernels::reference::Rope(
                  kernels::reference::RmsNorm(Values(values), Values(weight), model_.rms_norm_eps),
                  position_ids[token].item<int32_t>(), inverse_frequencies),
              values);
      }
    }
  }

  void SiluMul(const at::Tensor& gate_up, const at::Tensor& out) const override {
    for (int64_t row = 0; row < gate_up.size(0); ++row) {
      Store(kernels::reference::SiluMul(Values(gate_up[row])), out[row]);
    }
  }

  at::Tensor ListVisible(const at::Tensor& exit, const ForestShape& /*shape*/) const override {
    return exit.clone();
  }

  void TreeAttention(const at::Tensor& qkv, const at::Tensor& visible, const ForestShape& shape,
                     const at::Tensor& out) const override {
    kernels::reference::TreeAttentionInput input;
    input.q = Values(qkv.narrow(1, 0, model_.query_size()));
    input.k = Values(qkv.narrow(1, model_.query_size(), model_.kv_size()));
    input.v = Values(qkv.narrow(1, model_.query_size() + model_.kv_size(), model_.kv_size()));
    const int32_t* exit = visible.const_data_ptr<int32_t>();
    input.exit.assign(exit, exit + shape.num_tokens);
    input.num_query_heads = static_cast<int32_t>(model_.num_query_heads);
    input.num_kv_heads = static_cast<int32_t>(model_.num_kv_heads);
    input.head_dim = static_cast<int32_t>(model_.head_dim);
    input.scale = model_.score_scale;
    Store(kernels::reference::TreeAttention(input).out, out);
  }

 private:
  const KernelModel model_;
};

}  // namespace

std::unique_ptr<const KernelOps> MakeReferenceKernelOps(const KernelModel& model) {
  return std::make_unique<ReferenceKernelOps>(model);
}

}  // namespace canopy
