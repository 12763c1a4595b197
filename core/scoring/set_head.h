// The typed-decision head, which scores all candidates of a question together, in float32.
// Permuting the candidates permutes the scores.
//
//   x = proj_in(vectors)                     [questions, slots, 256]
//   two pre-norm transformer encoder layers  over the candidates of a question, without positions
//   representation = vectors + proj_out(x)   [questions, slots, hidden]
//   score = fc2(SiLU(fc1(RMSNorm(representation))))
#ifndef CORE_SCORING_SET_HEAD_H_
#define CORE_SCORING_SET_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/checkpoint/weight_schema.h"

namespace canopy {

// Weight [out, in] and bias [out] of a linear map, or weight and bias of a layer norm.
struct Affine {
  at::Tensor weight;
  at::Tensor bias;
};

// The weights of PyTorch's TransformerEncoderLayer. All are float32, on one device.
struct SetLayerWeights {
  Affine norm1;
  Affine qkv;  // in_proj: q, k and v, concatenated along the output dimension
  Affine attention_output;
  Affine norm2;
  Affine linear1;
  Affine linear2;
};

struct SetHeadWeights {
  Affine proj_in;
  std::vector<SetLayerWeights> layers;
  Affine proj_out;
  at::Tensor scorer_norm;
  Affine fc1;
  Affine fc2;
};

// The candidates of several questions as a flat list, in host memory.
struct CandidateSets {
  absl::Span<const float> vectors;             // [paths, hidden]
  absl::Span<const uint8_t> present;           // [paths]; 0 = not a candidate of its question
  absl::Span<const int32_t> question_offsets;  // [questions + 1], offsets into the paths
};

// Immutable. Call from one thread at a time.
class SetHead {
 public:
  explicit SetHead(SetHeadWeights weights) : weights_(std::move(weights)) {}

  // Loads the head of a checkpoint that MatchWeights found in the decision layout. Returns
  // RESOURCE_EXHAUSTED if the device has not enough memory.
  static absl::StatusOr<SetHead> Load(const WeightMap& weights, at::Device device);

  // vectors [questions, slots, hidden] float32 and mask [questions, slots] bool (true = a
  // candidate), on the head's device -> scores [questions, slots]. Empty slots get -1e4; their
  // vectors are ignored. If a candidate's vector overflows in proj_in, its score is NaN, and the
  // other candidates are scored as if it were absent. Throws LibTorch's errors.
  at::Tensor Score(const at::Tensor& vectors, const at::Tensor& mask) const;

  // Returns scores [paths]; NaN for paths that are not present. Runs questions in groups of bounded
  // size, padded to the largest question of the group. Returns the errors of GuardTorch.
  absl::StatusOr<std::vector<float>> ScoreSets(const CandidateSets& sets) const;

 private:
  at::Tensor Layer(const SetLayerWeights& layer, const at::Tensor& x, const at::Tensor& mask) const;
  void ScoreGroup(const CandidateSets& sets, size_t first, size_t last,
                  absl::Span<float> scores) const;

  SetHeadWeights weights_;
};

}  // namespace canopy

#endif  // CORE_SCORING_SET_HEAD_H_
