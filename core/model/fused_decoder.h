// The decoder of every family over a flat forest through the kernels of kernels/: no padding, no
// mask and no gathered keys in memory.
//
//   per layer   RMS norm | QKV product | query and key norm (where the family has it) + RoPE |
//               tree attention | output product, added into the residual | RMS norm |
//               gate and up product | SiLU x up | down product, added into the residual,
//               or the mixture of experts in place of these three
//   last layer  all of it up to attention; the rest only for the rows that are read
//
// Forwards of few tokens are recorded once as a CUDA graph for each size class and then replayed
// with padding tokens, each a tree of its own, behind the forest: there, starting kernels one by
// one would take longer than running them.
#ifndef CORE_MODEL_FUSED_DECODER_H_
#define CORE_MODEL_FUSED_DECODER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/model_config.h"
#include "core/model/experts.h"
#include "core/model/weights.h"
#include "core/ops/cuda_graph.h"
#include "core/ops/kernel_ops.h"
#include "core/ops/kernel_ops_factory.h"
#include "core/tree/tree_plan.h"

namespace canopy {

// What the kernels want to know of a model.
KernelModel KernelModelOf(const ModelConfig& config, const DecoderWeights& weights);

// One forward at a time. Shares the weights' memory.
class FusedDecoder {
 public:
  // On the device and in the dtype of `options`. FAILED_PRECONDITION, saying why, for a model with
  // a sliding window, or as `kernels` says. Throws LibTorch's errors.
  static absl::StatusOr<std::unique_ptr<FusedDecoder>> Create(const ModelConfig& config,
                                                              const DecoderWeights& weights,
                                                              const at::TensorOptions& options,
                                                              const KernelOpsFactory& kernels);

  // Forwards of at most so many tokens run as graphs, but for models with experts, whose grouped
  // products may read sizes back. Measured on one H200 (2026-11-30): 164 tokens
  // take 1.40 ms as a graph and 2.8 ms without; from 920 tokens on the device is the slower part.
  static constexpr int32_t kMaxGraphTokens = 1024;
  // Once graphs take so much, sizes that have none run without.
  static constexpr int64_t kMaxGraphBytes = int64_t{1} << 30;

  FusedDecoder(const ModelConfig& config, const DecoderWeights& weights,
               std::unique_ptr<const KernelOps> ops);
  ~FusedDecoder();

  // Final-norm hidden states [slots, hidden] at the given grid slots, in their order. The plan is
  // of Backend::kFused, its tokens are in the vocabulary. INVALID_ARGUMENT for a slot outside the
  // grid, INTERNAL for a plan that is not a flat forest. Call in inference mode. Throws LibTorch's
  // errors.
  absl::StatusOr<at::Tensor> Forward(const TreePlan& plan, absl::Span<const int32_t> slots);

  // Records the graph of the smallest size that has none yet; false = there is nothing left to
  // record, or kMaxGraphBytes are taken. Call in inference mode. Throws LibTorch's errors.
  bool RecordNextGraph();

  // Graphs that are recorded, at most NumGraphSizes(), and the device memory that they and their
  // buffers take. From any thread.
  int64_t num_graphs() const { return num_graphs_.load(std::memory_order_relaxed); }
  int64_t graph_bytes() const { return graph_bytes_.load(std::memory_order_relaxed); }
  static int64_t NumGraphSizes();

 private:
  struct Layer {
    at::Tensor input_norm;
    HeadProjection heads;
    at::Tensor output;  // [in, out], for a product from the left
    at::Tensor output_bias;
    at::Tensor post_attention_norm;
    at::Tensor gate_up;     // [out, in]; undefined, as down, in sparse layers
    at::Tensor down;        // [in, out]
    ExpertWeights experts;  // of sparse layers
  };
  // A forest on the device, [tokens] int32 each.
  struct Forest {
    at::Tensor token_ids;
    at::Tensor position_ids;
    at::Tensor exit;
    ForestShape shape;
  };
  // A row a token, but for gate_up and activated, whose rows serve one part of the tokens after the
  // other; `hidden` is the residual stream.
  struct Buffers {
    at::Tensor hidden;
    at::Tensor normed;
    at::Tensor qkv;
    at::Tensor attended;
    at::Tensor gate_up;
    at::Tensor activated;
  };
  struct Graph;

  at::Tensor MakeRows(int64_t rows, int64_t columns) const;
  // What FinishLayer needs: no `qkv`.
  Buffers MakeFinishBuffers(int64_t rows) const;
  Buffers MakeBuffers(int64_t rows) const;
  // Runs everything but the last layer after its attention: afterwards `hidden` and `attended` hold
  // what FinishLayer needs.
  void RunToLastAttention(const Forest& forest, const Buffers& buffers) const;
  // The rest of `layer`, in place on `hidden`.
  void FinishLayer(const Layer& layer, const Buffers& buffers) const;
  // Adds the MLP of `normed` into `hidden`.
  void AddMlp(const Layer& layer, const Buffers& buffers) const;
  at::Tensor ReadRows(const Buffers& buffers, const at::Tensor& slots) const;

  at::Tensor RunPlain(const TreePlan& plan, absl::Span<const int32_t> slots) const;
  at::Tensor RunAsGraph(Graph& graph, const TreePlan& plan, absl::Span<const int32_t> slots) const;
  // The graph for forests of so many tokens, recorded at its first use; null where there is none.
  Graph* FindGraph(int32_t tokens);
  std::unique_ptr<Graph> Record(int32_t tokens);

  const ModelConfig config_;
  const int64_t intermediate_size_;  // of dense MLPs; 0 where no layer has one
  const std::unique_ptr<const KernelOps> ops_;
  at::Tensor embedding_;
  at::Tensor final_norm_;
  std::vector<Layer> layers_;
  Buffers graph_buffers_;                             // of kMaxGraphTokens rows, once needed
  std::unique_ptr<CudaGraphMemory> graph_memory_;     // likewise; outlives the graphs
  std::map<int32_t, std::unique_ptr<Graph>> graphs_;  // by tokens
  std::atomic<int64_t> num_graphs_{0};
  std::atomic<int64_t> graph_bytes_{0};
};

}  // namespace canopy

#endif  // CORE_MODEL_FUSED_DECODER_H_
