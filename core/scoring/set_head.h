// The typed-decision head: scores a question's candidates by looking at all of them, in float32.
// Permuting the candidates permutes the scores.
//
//   x = proj_in(vectors)                     [questions, slots, 256]
//   two pre-norm transformer encoder layers  among the candidates of a question, no positions
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

// Weight [out, in] and bias [out], or those of a layer norm.
struct Affine {
  at::Tensor weight;
  at::Tensor bias;
};

// As PyTorch's TransformerEncoderLayer has them. All float32, on one device.
struct SetLayerWeights {
  Affine norm1;
  Affine qkv;  // in_proj: q, k and v, one below the other
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

// Questions as a flat list of candidates. Host memory.
struct CandidateSets {
  absl::Span<const float> vectors;             // [paths, hidden]
  absl::Span<const uint8_t> present;           // [paths]; 0 = left out of its question
  absl::Span<const int32_t> question_offsets;  // [questions + 1], into the paths
};

// Immutable. One call at a time.
class SetHead {
 public:
  explicit SetHead(SetHeadWeights weights) : weights_(std::move(weights)) {}

  // The head of a checkpoint that MatchWeights found in the decision layout. RESOURCE_EXHAUSTED
  // when the device has no room.
  static absl::StatusOr<SetHead> Load(const WeightMap& weights, at::Device device);

  // vectors [questions, slots, hidden] float32 and mask [questions, slots] bool, true = a
  // candidate, on the head's device -> scores [questions, slots], -1e4 in empty slots, whose
  // vectors may hold anything. A candidate whose vector overflows in proj_in gets NaN, and the
  // others get what they would get without it. Throws LibTorch's errors.
  at::Tensor Score(const at::Tensor& vectors, const at::Tensor& mask) const;

  // Scores [paths]; NaN for those left out. Runs questions in groups of bounded size, padded to the
  // largest of the group. What GuardTorch returns.
  absl::StatusOr<std::vector<float>> ScoreSets(const CandidateSets& sets) const;

 private:
  at::Tensor Layer(const SetLayerWeights& layer, const at::Tensor& x, const at::Tensor& mask) const;
  void ScoreGroup(const CandidateSets& sets, size_t first, size_t last,
                  absl::Span<float> scores) const;

  SetHeadWeights weights_;
};

}  // namespace canopy

#endif  // CORE_SCORING_SET_HEAD_H_
