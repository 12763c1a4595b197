#include "core/ops/testing/reference_kernel_ops.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/mm.h"
#include "core/ops/kernel_ops.h"
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

at::Tensor Multiply(const at::Tensor& rows, const at::Tensor& weight) {
  return at::mm(rows.to(at::kDouble), weight.t().to(at::kDouble));
}

// Splits `source` into rows of `columns` elements and writes compute(row, values of the row) to
// `target`.
template <typename Compute>
void MapRows(const at::Tensor& source, int64_t columns, const at::Tensor& target,
             const Compute& compute) {
  const std::vector<double> values = Values(source);
  std::vector<double> results;
  for (int64_t begin = 0; begin < static_cast<int64_t>(values.size()); begin += columns) {
    const auto first = values.begin() + begin;
    const std::vector<double> result = compute(begin / columns, {first, first + columns});
    results.insert(results.end(), result.begin(), result.end());
  }
  Store(std::move(results), target);
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
    const std::vector<double> weights = Values(weight);
    MapRows(rows, rows.size(1), out, [&](int64_t /*row*/, const std::vector<double>& values) {
      return kernels::reference::RmsNorm(values, weights, model_.rms_norm_eps);
    });
  }

  void ProjectHeads(const at::Tensor& rows, const HeadProjection& projection,
                    const at::Tensor& position_ids, const at::Tensor& qkv) const override {
    at::Tensor sums = Multiply(rows, projection.weight);
    if (projection.bias.defined()) {
      sums.add_(projection.bias);
    }
    const bool is_normed = projection.qk_norm.defined();
    const auto head_norm = [&](int64_t head) {
      return is_normed ? Values(projection.qk_norm[head]) : std::vector<double>();
    };
    const float* frequencies = model_.inverse_frequencies.const_data_ptr<float>();
    const std::vector<float> inverse_frequencies(frequencies, frequencies + model_.head_dim / 2);
    const int32_t* positions = position_ids.const_data_ptr<int32_t>();
    const std::vector<double> q_weight = head_norm(0);
    const std::vector<double> k_weight = head_norm(model_.num_query_heads);
    const int64_t rotated_heads = model_.num_query_heads + model_.num_kv_heads;
    const int64_t all_heads = rotated_heads + model_.num_kv_heads;
    MapRows(sums, model_.head_dim, qkv, [&](int64_t row, std::vector<double> values) {
      const int64_t head = row % all_heads;
      if (head >= rotated_heads) {
        return values;
      }
      const std::vector<double>& weight = head < model_.num_query_heads ? q_weight : k_weight;
      if (!weight.empty()) {
        values = kernels::reference::RmsNorm(values, weight, model_.rms_norm_eps);
      }
      return kernels::reference::Rope(values, positions[row / all_heads], inverse_frequencies);
    });
  }

  void GatedProduct(const at::Tensor& rows, const at::Tensor& gate_up,
                    const at::Tensor& /*scratch*/, const at::Tensor& out) const override {
    MapRows(Multiply(rows, gate_up), gate_up.size(0), out,
            [](int64_t /*row*/, const std::vector<double>& values) {
              return kernels::reference::SiluMul(values);
            });
  }

  int64_t GatedScratchColumns() const override { return 0; }

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

KernelOpsFactory ReferenceKernels() {
  return [](const KernelModel& model, const c10::TensorOptions& /*options*/)
             -> absl::StatusOr<std::unique_ptr<const KernelOps>> {
    return std::make_unique<const ReferenceKernelOps>(model);
  };
}

}  // namespace canopy
