// Which tensors a model needs, and whether a source has exactly these.
#ifndef CORE_CHECKPOINT_WEIGHT_SCHEMA_H_
#define CORE_CHECKPOINT_WEIGHT_SCHEMA_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/checkpoint/file_copy.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/tensor_spec.h"
#include "core/checkpoint/weight_source.h"

namespace canopy {

// In the order of the forward pass. `lm_head.weight` only for an untied language model.
std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config);

// The tensors of a typed-decision model with this backbone, whose own head it does without.
std::vector<TensorSpec> DecisionTensors(const ModelConfig& backbone);

// Elements of ExpectedTensors: a tied matrix counts once.
int64_t CountParameters(const ModelConfig& config);

// The tensors of ExpectedTensors or DecisionTensors by canonical name; all are there.
struct WeightMap {
  WeightSource source;  // Keeps the bytes alive.
  std::map<std::string, TensorView, std::less<>> tensors;
  bool has_decision_head = false;  // The decision layout: DecisionTensors.
  bool lacks_lm_head = false;      // An untied language model without `lm_head.weight`.
  // Stored tensors that no computation reads, in words for the log.
  std::vector<std::string> ignored;

  // Null when the model has no such tensor.
  const TensorView* Find(absl::string_view canonical_name) const;
  // Elements of all tensors.
  int64_t CountParameters() const;
};

// Matches names, shapes and dtypes (F32, BF16 and F16, mixed as they come) one to one. The backbone
// is stored with the prefix "model." or with none, all of it, or with kDecisionBackbonePrefix
// beside a decision head (decision_layout.h). A tied language model may store `lm_head.weight` too,
// in any of the three types, if its values equal the embedding's, or in place of the embedding. A
// language model may hold `score.weight` [labels, hidden] as well, a reward head trained beside it.
// An untied one may lack `lm_head.weight`: it gives vectors, and lacks_lm_head is set.
//
// The experts of a layer are stored one by one, or all in one tensor: `experts.gate_up_proj`
// [experts, 2 x intermediate, hidden], gates before ups, and `experts.down_proj` [experts, hidden,
// intermediate]. The map names them one by one.
//
// Ignored, as in transformers: `rotary_emb.inv_freq`, which follows from the configuration, and the
// `lm_head.weight` of a classifier or of a model without a head.
//
// DATA_LOSS with at most 8 names of each kind and their number when tensors are missing,
// unexpected, of another shape or of another dtype.
// Errors of `check_wanted`, which is asked while the values of a tied head are compared.
absl::StatusOr<WeightMap> MatchWeights(const WeightSource& source, const ModelConfig& config,
                                       const WantedCheck& check_wanted = nullptr);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_WEIGHT_SCHEMA_H_
