#include "core/scoring/token_logprobs.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "ATen/ops/aminmax.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/topk.h"

namespace canopy {
namespace {

// Bytes that a chunk takes for each of its logits: the logits and one array made of them, or that
// array, the keys of the order below and two arrays of their size on the way.
constexpr int64_t kBytesPerLogit = 8;
constexpr int64_t kBytesPerRankedLogit = 28;
// Of weights that are widened at a time.
constexpr int64_t kWideWeightBytes = int64_t{64} << 20;

template <typename T>
at::Tensor ToDevice(const std::vector<T>& values, at::Device device) {
  // LibTorch has no read-only tensors; this one is only read.
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value))
      .to(at::TensorOptions().device(device).dtype(at::kLong), /*non_blocking=*/false,
          /*copy=*/true);
}

// hidden [rows, hidden] -> [rows, vocab] float32, products and sums in float32.
at::Tensor Logits(const at::Tensor& hidden, const at::Tensor& weight) {
  if (weight.scalar_type() == at::kFloat) {
    return at::linear(hidden.to(at::kFloat), weight);
  }
  if (weight.is_cuda()) {
    // A product of two narrow numbers is exact in float32.
    return at::mm(hidden.to(weight.scalar_type()), weight.t(), at::kFloat);
  }
  const int64_t vocab = weight.size(0);
  const at::Tensor wide_hidden = hidden.to(at::kFloat);
  at::Tensor logits = at::empty({hidden.size(0), vocab}, wide_hidden.options());
  const int64_t step = std::max<int64_t>(kWideWeightBytes / (weight.size(1) * 4), 1);
  for (int64_t begin = 0; begin < vocab; begin += step) {
    const int64_t count = std::min(step, vocab - begin);
    logits.narrow(1, begin, count)
        .copy_(at::linear(wide_hidden, weight.narrow(0, begin, count).to(at::kFloat)));
  }
  return logits;
}

// values [rows, n] float32 -> [rows, k] int64, the indices of the largest, best first, ties to the
// lower index. One integer key holds the order of the floats above that of the indices.
at::Tensor TopIndices(const at::Tensor& values, int64_t k) {
  const at::Tensor bits = values.view(at::kInt).to(at::kLong);
  // The bits of negative floats count down.
  at::Tensor keys = bits.bitwise_right_shift(63).bitwise_and_(0x7fffffff).bitwise_xor_(bits);
  keys.mul_(int64_t{1} << 32).sub_(at::arange(values.size(1), keys.options()));
  const at::Tensor top = std::get<0>(at::topk(keys, k, 1, /*largest=*/true, /*sorted=*/true));
  return top.neg().bitwise_and_(0xffffffff);
}

// One call of Read.
class Reading {
 public:
  Reading(const at::Tensor& hidden, const DistributionReads& reads,
          const DistributionOptions& options)
      : hidden_(hidden),
        reads_(reads),
        options_(options),
        rows_(ToDevice(reads.rows, hidden.device())) {
    const auto num_rows = static_cast<int64_t>(reads.rows.size());
    const auto floats = at::TensorOptions().device(hidden.device()).dtype(at::kFloat);
    if (options.logprobs) {
      targets_ = ToDevice(reads.targets, hidden.device());
      target_rows_ = ToDevice(TargetRows(reads), hidden.device());
      results_.logprobs = at::empty({targets_.numel()}, floats);
    }
    if (options.entropy) {
      results_.entropy = at::empty({num_rows}, floats);
    }
    if (options.vocab_range) {
      results_.min_logit = at::empty({num_rows}, floats);
      results_.max_logit = at::empty({num_rows}, floats);
    }
    if (options.top_logprobs > 0) {
      results_.top_ids = at::empty({num_rows, options.top_logprobs}, floats.dtype(at::kInt));
      results_.top_logprobs = at::empty({num_rows, options.top_logprobs}, floats);
    }
  }

  // The distributions from `begin` on.
  void ReadChunk(const at::Tensor& weight, int64_t begin, int64_t count) {
    at::Tensor values = Logits(hidden_.index_select(0, rows_.narrow(0, begin, count)), weight);
    if (options_.vocab_range) {
      const auto [smallest, largest] = at::aminmax(values, 1);
      results_.min_logit.narrow(0, begin, count).copy_(smallest);
      results_.max_logit.narrow(0, begin, count).copy_(largest);
    }
    if (!options_.logprobs && !options_.entropy && options_.top_logprobs == 0) {
      return;
    }
    if (options_.temperature != 1) {
      values.div_(options_.temperature);
    }
    values = at::log_softmax(values, 1);
    ReadTargets(values, begin, count);
    if (options_.entropy) {
      results_.entropy.narrow(0, begin, count).copy_(values.exp().mul_(values).sum(1).neg_());
    }
    if (options_.top_logprobs > 0) {
      const at::Tensor top = TopIndices(values, options_.top_logprobs);
      results_.top_ids.narrow(0, begin, count).copy_(top);
      results_.top_logprobs.narrow(0, begin, count).copy_(values.gather(1, top));
    }
  }

  DistributionResults Take() { return std::move(results_); }

 private:
  // The distribution of each target.
  static std::vector<int32_t> TargetRows(const DistributionReads& reads) {
    std::vector<int32_t> rows(reads.targets.size());
    for (size_t row = 0; row < reads.rows.size(); ++row) {
      std::fill(rows.begin() + reads.target_offsets[row],
                rows.begin() + reads.target_offsets[row + 1], static_cast<int32_t>(row));
    }
    return rows;
  }

  // `logprobs` are those of the distributions from `begin` on.
  void ReadTargets(const at::Tensor& logprobs, int64_t begin, int64_t count) {
    if (!options_.logprobs) {
      return;
    }
    const int64_t first = reads_.target_offsets[static_cast<size_t>(begin)];
    const int64_t size = reads_.target_offsets[static_cast<size_t>(begin + count)] - first;
    const at::Tensor places = target_rows_.narrow(0, first, size)
                                  .sub(begin)
                                  .mul_(logprobs.size(1))
                                  .add_(targets_.narrow(0, first, size));
    results_.logprobs.narrow(0, first, size).copy_(logprobs.view(-1).index_select(0, places));
  }

  const at::Tensor& hidden_;
  const DistributionReads& reads_;
  const DistributionOptions& options_;
  const at::Tensor rows_;   // [distributions] int64
  at::Tensor targets_;      // [targets] int64
  at::Tensor target_rows_;  // [targets] int64
  DistributionResults results_;
};

}  // namespace

LanguageModelHead::LanguageModelHead(at::Tensor weight) : weight_(std::move(weight)) {}

DistributionResults LanguageModelHead::Read(const at::Tensor& hidden,
                                            const DistributionReads& reads,
                                            const DistributionOptions& options) const {
  Reading reading(hidden, reads, options);
  const int64_t row_bytes =
      weight_.size(0) * (options.top_logprobs > 0 ? kBytesPerRankedLogit : kBytesPerLogit);
  const int64_t chunk_rows = std::max<int64_t>(options.workspace_bytes / row_bytes, 1);
  const auto num_rows = static_cast<int64_t>(reads.rows.size());
  for (int64_t begin = 0; begin < num_rows; begin += chunk_rows) {
    reading.ReadChunk(weight_, begin, std::min(chunk_rows, num_rows - begin));
  }
  return reading.Take();
}

}  // namespace canopy
