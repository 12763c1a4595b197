#include "core/scoring/set_head.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "ATen/ops/abs.h"
#include "ATen/ops/amax.h"
#include "ATen/ops/gelu.h"
#include "ATen/ops/layer_norm.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/rms_norm.h"
#include "ATen/ops/scaled_dot_product_attention.h"
#include "ATen/ops/silu.h"
#include "ATen/ops/where.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "core/checkpoint/decision_layout.h"
#include "core/model/weights.h"
#include "core/ops/torch_guard.h"

namespace canopy {
namespace {

constexpr double kEmptySlotScore = -1e4;
constexpr double kLayerNormEps = 1e-5;  // PyTorch's default
constexpr double kScorerNormEps = 1e-6;
// The sum of 256 squares of numbers up to this size fits in float32.
constexpr double kLargestProjection = 1e18;

// The limit on slots per group; the vectors of a group take 64 MiB at hidden size 1,024.
constexpr int64_t kMaxGroupSlots = 16'384;

at::Tensor Apply(const Affine& linear, const at::Tensor& x) {
  return at::linear(x, linear.weight, linear.bias);
}

at::Tensor Normalize(const Affine& norm, const at::Tensor& x) {
  return at::layer_norm(x, {kSetWidth}, norm.weight, norm.bias, kLayerNormEps);
}

// Uploads tensors by name. Precondition: MatchWeights has checked all names.
class HeadLoader {
 public:
  HeadLoader(const WeightMap& weights, at::Device device)
      : weights_(weights), options_(at::TensorOptions().dtype(at::kFloat).device(device)) {}

  at::Tensor Tensor(const std::string& name) const {
    return UploadWeight(*weights_.Find(name), options_);
  }
  Affine Pair(const std::string& name, absl::string_view separator = ".") const {
    return {Tensor(absl::StrCat(name, separator, "weight")),
            Tensor(absl::StrCat(name, separator, "bias"))};
  }
  SetLayerWeights Layer(int64_t index) const {
    const std::string layer = absl::StrCat("set_encoder.encoder.layers.", index, ".");
    return {Pair(layer + "norm1"),
            Pair(layer + "self_attn.in_proj", "_"),
            Pair(layer + "self_attn.out_proj"),
            Pair(layer + "norm2"),
            Pair(layer + "linear1"),
            Pair(layer + "linear2")};
  }

 private:
  const WeightMap& weights_;
  const at::TensorOptions options_;
};

}  // namespace

absl::StatusOr<SetHead> SetHead::Load(const WeightMap& weights, at::Device device) {
  return GuardTorch("loading the decision head", [&]() -> absl::StatusOr<SetHead> {
    const c10::InferenceMode inference;
    const HeadLoader loader(weights, device);
    SetHeadWeights head;
    head.proj_in = loader.Pair("proj_in");
    for (int64_t index = 0; index < kSetLayers; ++index) {
      head.layers.push_back(loader.Layer(index));
    }
    head.proj_out = loader.Pair("proj_out");
    head.scorer_norm = loader.Tensor("scorer.norm.weight");
    head.fc1 = loader.Pair("scorer.fc1");
    head.fc2 = loader.Pair("scorer.fc2");
    return SetHead(std::move(head));
  });
}

at::Tensor SetHead::Layer(const SetLayerWeights& layer, const at::Tensor& x,
                          const at::Tensor& mask) const {
  // [questions, slots, 3 x 256] -> three tensors [questions, heads, slots, 64].
  const at::Tensor qkv = Apply(layer.qkv, Normalize(layer.norm1, x))
                             .unflatten(2, {3, kSetHeads, kSetWidth / kSetHeads})
                             .permute({2, 0, 3, 1, 4});
  const at::Tensor attended =
      at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], mask).transpose(1, 2).flatten(2);
  const at::Tensor with_attention = x.add(Apply(layer.attention_output, attended));
  const at::Tensor inner = at::gelu(Apply(layer.linear1, Normalize(layer.norm2, with_attention)));
  return with_attention.add(Apply(layer.linear2, inner));
}

at::Tensor SetHead::Score(const at::Tensor& vectors, const at::Tensor& mask) const {
  // Empty slots are replaced by zeros. Multiplying by zero would not remove a NaN in an empty slot.
  const at::Tensor clean = at::where(mask.unsqueeze(2), vectors, 0.0);
  const at::Tensor projected = Apply(weights_.proj_in, clean);
  // Attention would spread the overflow of one candidate to all candidates of the question, so such
  // candidates are excluded. Attention reads only layer norms, which are finite while the sum of a
  // row's squares is finite. The comparison is also false for NaN.
  const at::Tensor taking_part =
      mask.logical_and(at::amax(at::abs(projected), 2).lt(kLargestProjection));
  at::Tensor x = at::where(taking_part.unsqueeze(2), projected, 0.0);
  const at::Tensor key_mask =
      taking_part.unsqueeze(1).unsqueeze(1).expand({-1, kSetHeads, mask.size(1), -1});
  for (const SetLayerWeights& layer : weights_.layers) {
    x = Layer(layer, x, key_mask);
  }
  const at::Tensor representation = clean.add(Apply(weights_.proj_out, x));
  const at::Tensor normed = at::rms_norm(representation, weights_.scorer_norm.sizes(),
                                         weights_.scorer_norm, kScorerNormEps);
  const at::Tensor scores = Apply(weights_.fc2, at::silu(Apply(weights_.fc1, normed))).squeeze(2);
  const at::Tensor own = at::where(taking_part, scores, std::numeric_limits<double>::quiet_NaN());
  return at::where(mask, own, kEmptySlotScore);
}

absl::StatusOr<std::vector<float>> SetHead::ScoreSets(const CandidateSets& sets) const {
  std::vector<float> scores(sets.present.size(), std::numeric_limits<float>::quiet_NaN());
  const auto size_of = [&sets](size_t question) {
    return int64_t{sets.question_offsets[question + 1]} - sets.question_offsets[question];
  };
  const size_t num_questions = sets.question_offsets.size() - 1;
  for (size_t first = 0; first < num_questions;) {
    int64_t slots = size_of(first);
    size_t last = first + 1;
    for (; last < num_questions; ++last) {
      const int64_t longer = std::max(slots, size_of(last));
      if (longer * static_cast<int64_t>(last + 1 - first) > kMaxGroupSlots) {
        break;
      }
      slots = longer;
    }
    CANOPY_RETURN_IF_ERROR(GuardTorch("decisions", [&]() -> absl::Status {
      const c10::InferenceMode inference;
      ScoreGroup(sets, first, last, absl::MakeSpan(scores));
      return absl::OkStatus();
    }));
    first = last;
  }
  return scores;
}

void SetHead::ScoreGroup(const CandidateSets& sets, size_t first, size_t last,
                         absl::Span<float> scores) const {
  const absl::Span<const int32_t> offsets = sets.question_offsets;
  int64_t slots = 0;
  for (size_t question = first; question < last; ++question) {
    slots = std::max(slots, int64_t{offsets[question + 1]} - offsets[question]);
  }
  const auto num_questions = static_cast<int64_t>(last - first);
  const int64_t hidden = weights_.scorer_norm.size(0);
  const at::Tensor vectors = at::zeros({num_questions, slots, hidden}, at::kFloat);
  const at::Tensor mask = at::zeros({num_questions, slots}, at::kBool);
  auto* vector_data = vectors.mutable_data_ptr<float>();
  auto* mask_data = mask.mutable_data_ptr<bool>();
  const auto slot_of = [&](size_t question, int32_t path) {
    return static_cast<int64_t>(question - first) * slots + path - offsets[question];
  };
  for (size_t question = first; question < last; ++question) {
    const int32_t begin = offsets[question];
    const int64_t count = offsets[question + 1] - begin;
    std::copy_n(sets.vectors.data() + begin * hidden, count * hidden,
                vector_data + slot_of(question, begin) * hidden);
    std::copy_n(sets.present.data() + begin, count, mask_data + slot_of(question, begin));
  }
  const at::Device device = weights_.scorer_norm.device();
  const at::Tensor group = Score(vectors.to(device), mask.to(device)).cpu().contiguous();
  const auto* group_data = group.const_data_ptr<float>();
  for (size_t question = first; question < last; ++question) {
    for (int32_t path = offsets[question]; path < offsets[question + 1]; ++path) {
      if (sets.present[path] != 0) {
        scores[path] = group_data[slot_of(question, path)];
      }
    }
  }
}

}  // namespace canopy
