#include "core/scoring/token_logprobs.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/topk.h"
#include "c10/core/GradMode.h"
#include "core/ops/index_upload.h"
#include "core/ops/recompute.h"

namespace canopy {
namespace {

// The bytes that a chunk takes per logit. If the most likely tokens are requested, they include the
// keys of TopIndices and two temporary arrays of the same size.
constexpr int64_t kBytesPerLogit = 4;
constexpr int64_t kBytesPerRankedLogit = 24;
// The rows of a product are rounded to whole tiles of the device's matrix units.
constexpr int64_t kTileRows = 128;
// The limit on the bytes of weights that are widened to float32 at a time.
constexpr int64_t kWideWeightBytes = int64_t{64} << 20;

// hidden [rows, hidden] -> logits [rows, vocab] float32, with products and sums in float32.
at::Tensor Logits(const at::Tensor& hidden, const at::Tensor& weight) {
  if (weight.scalar_type() == at::kFloat) {
    return at::linear(hidden.to(at::kFloat), weight);
  }
  if (weight.is_cuda()) {
    // Products of two 16-bit numbers are exact in float32.
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

// values [rows, n] float32 -> [rows, k] int64, the indices of the largest values, best first; the
// lower index wins a tie. Each value and its index form one integer key, with the value in the
// upper bits.
at::Tensor TopIndices(const at::Tensor& values, int64_t k) {
  const at::Tensor bits = values.view(at::kInt).to(at::kLong);
  // The bits of negative floats are flipped, because they decrease as the float increases.
  at::Tensor keys = bits.bitwise_right_shift(63).bitwise_and_(0x7fffffff).bitwise_xor_(bits);
  keys.mul_(int64_t{1} << 32).sub_(at::arange(values.size(1), keys.options()));
  const at::Tensor top = std::get<0>(at::topk(keys, k, 1, /*largest=*/true, /*sorted=*/true));
  return top.neg().bitwise_and_(0xffffffff);
}

at::Tensor LogitsForTraining(const at::Tensor& hidden, const at::Tensor& weight) {
  return at::linear(hidden.to(weight.scalar_type()), weight).to(at::kFloat);
}

LogitStatsOptions StatsOptionsOf(const DistributionOptions& options) {
  return {options.token_logprobs || options.top_logprobs > 0, options.entropy, options.vocab_range,
          options.temperature};
}

DistributionResults ReadLogits(const at::Tensor& logits, const LogitReader& reader,
                               const LogitTargets& targets, const DistributionOptions& options) {
  const LogitStats stats = reader.Read(logits, StatsOptionsOf(options));
  DistributionResults results;
  results.entropy = stats.entropy;
  results.min_logit = stats.min_logit;
  results.max_logit = stats.max_logit;
  if (options.token_logprobs) {
    const at::Tensor places = targets.rows.mul(logits.size(1)).add_(targets.tokens);
    results.logprobs = logits.view(-1)
                           .index_select(0, places)
                           .div(options.temperature)
                           .sub(stats.log_sum_exp.index_select(0, targets.rows));
  }
  if (options.top_logprobs > 0) {
    const at::Tensor top = TopIndices(logits.detach(), options.top_logprobs);
    results.top_ids = top.to(at::kInt);
    results.top_logprobs =
        logits.gather(1, top).div(options.temperature).sub(stats.log_sum_exp.unsqueeze(1));
  }
  if (options.token_ranks) {
    results.ranks = reader.Ranks(logits.detach(), targets);
  }
  return results;
}

// Returns true if tokens are compared with each other. A chunk's logits then have to be stored.
bool ComparesTokens(const DistributionOptions& options) {
  return options.top_logprobs > 0 || options.token_ranks;
}

// Like ReadLogits, but computes the logits as hidden x weight without storing them. The options
// must not compare tokens.
DistributionResults ReadProduct(const at::Tensor& hidden, const at::Tensor& weight,
                                const LogitReader& reader, const LogitTargets& targets,
                                const DistributionOptions& options) {
  at::Tensor target_logits;
  const LogitStats stats =
      reader.ReadProduct(hidden, weight, targets, StatsOptionsOf(options), &target_logits);
  DistributionResults results;
  results.entropy = stats.entropy;
  results.min_logit = stats.min_logit;
  results.max_logit = stats.max_logit;
  if (options.token_logprobs) {
    results.logprobs = target_logits.div_(options.temperature)
                           .sub_(stats.log_sum_exp.index_select(0, targets.rows));
  }
  return results;
}

// Concatenates the results of one or more chunks.
DistributionResults Join(const std::vector<DistributionResults>& chunks) {
  DistributionResults joined;
  for (const auto member : kDistributionTensors) {
    std::vector<at::Tensor> parts;
    for (const DistributionResults& chunk : chunks) {
      if ((chunk.*member).defined()) {
        parts.push_back(chunk.*member);
      }
    }
    if (!parts.empty()) {
      joined.*member = at::cat(parts);
    }
  }
  return joined;
}

// Like ReadLogits of hidden x weight, but keeps no logits for the backward pass.
DistributionResults ReadForTraining(const at::Tensor& hidden, const at::Tensor& weight,
                                    const LogitReader& reader, const LogitTargets& targets,
                                    const DistributionOptions& options) {
  const std::vector<at::Tensor> defined = RecomputeInBackward(
      [reader, targets, options](const std::vector<at::Tensor>& inputs) {
        const DistributionResults results =
            ReadLogits(LogitsForTraining(inputs[0], inputs[1]), reader, targets, options);
        std::vector<at::Tensor> outputs;
        for (const auto member : kDistributionTensors) {
          if ((results.*member).defined()) {
            outputs.push_back(results.*member);
          }
        }
        return outputs;
      },
      {hidden, weight});
  DistributionResults results;
  size_t list = 0;
  size_t next = 0;
  ForEachDistributionList([&](const auto& spec) {
    const auto member = kDistributionTensors[list++];
    if (AmountOf(options, spec.output) > 0) {
      results.*member = defined[next++];
    }
  });
  return results;
}

// Returns the distribution of each target.
std::vector<int32_t> TargetRows(const DistributionReads& reads) {
  std::vector<int32_t> rows(reads.targets.size());
  for (size_t row = 0; row < reads.rows.size(); ++row) {
    std::fill(rows.begin() + reads.target_offsets[row],
              rows.begin() + reads.target_offsets[row + 1], static_cast<int32_t>(row));
  }
  return rows;
}

}  // namespace

LanguageModelHead::LanguageModelHead(at::Tensor weight)
    : weight_(std::move(weight)), reader_(weight_.device()) {}

int64_t LanguageModelHead::ChunkRows(const DistributionOptions& options, bool by_product) const {
  const int64_t scratch_bytes =
      std::max({reader_.scratch_bytes(), options.top_logprobs > 0 ? kBytesPerRankedLogit : 0,
                options.token_ranks ? reader_.rank_scratch_bytes() : 0});
  const int64_t row_bytes = by_product ? LogitReader::ProductRowBytes(weight_)
                                       : weight_.size(0) * (kBytesPerLogit + scratch_bytes);
  const int64_t rows = options.workspace_bytes / row_bytes;
  return rows < kTileRows ? std::max<int64_t>(rows, 1) : rows / kTileRows * kTileRows;
}

DistributionResults LanguageModelHead::Read(const at::Tensor& hidden,
                                            const DistributionReads& reads,
                                            const DistributionOptions& options) const {
  const bool wants_gradients =
      c10::GradMode::is_enabled() && (hidden.requires_grad() || weight_.requires_grad());
  const bool by_product = !wants_gradients && !ComparesTokens(options) &&
                          hidden.scalar_type() == weight_.scalar_type() &&
                          reader_.ReadsProductsWith(weight_);
  const std::vector<int32_t> target_rows = TargetRows(reads);
  IndexUpload upload;
  upload.Add(reads.rows);
  upload.Add(reads.targets);
  upload.Add(target_rows);
  const std::vector<at::Tensor> arrays = upload.Upload(hidden.device());
  const at::Tensor targets = arrays[1].to(at::kLong);
  const at::Tensor rows_of_targets = arrays[2].to(at::kLong);
  const auto num_rows = static_cast<int64_t>(reads.rows.size());
  const int64_t chunk_rows = ChunkRows(options, by_product);
  std::vector<DistributionResults> chunks;
  int64_t begin = 0;
  do {
    const int64_t count = std::min(chunk_rows, num_rows - begin);
    const int64_t first = reads.target_offsets[static_cast<size_t>(begin)];
    const int64_t size = reads.target_offsets[static_cast<size_t>(begin + count)] - first;
    const LogitTargets chunk = {rows_of_targets.narrow(0, first, size).sub(begin),
                                targets.narrow(0, first, size)};
    const at::Tensor rows = hidden.index_select(0, arrays[0].narrow(0, begin, count));
    if (wants_gradients) {
      chunks.push_back(ReadForTraining(rows, weight_, reader_, chunk, options));
    } else if (by_product) {
      chunks.push_back(ReadProduct(rows, weight_, reader_, chunk, options));
    } else {
      chunks.push_back(ReadLogits(Logits(rows, weight_), reader_, chunk, options));
    }
    begin += count;
  } while (begin < num_rows);
  return Join(chunks);
}

}  // namespace canopy
