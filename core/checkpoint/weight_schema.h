// Lists the tensors that a model needs, and checks that a source has exactly these.
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

// Returns the tensors in the order of the forward pass. `lm_head.weight` is included only for an
// untied language model.
std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config);

// Returns the tensors of a typed-decision model with this backbone. The head named by the config is
// not included.
std::vector<TensorSpec> DecisionTensors(const ModelConfig& backbone);

// Returns the number of elements of ExpectedTensors; a tied matrix counts once.
int64_t CountParameters(const ModelConfig& config);

// The tensors of ExpectedTensors or DecisionTensors by canonical name. All of them are present,
// except a missing lm_head.
struct WeightMap {
  WeightSource source;  // keeps the bytes alive
  std::map<std::string, TensorView, std::less<>> tensors;
  // true = the decision layout, with the tensors of DecisionTensors
  bool has_decision_head = false;
  bool lacks_lm_head = false;  // true = an untied language model without `lm_head.weight`
  // Descriptions, for the log, of stored tensors that no computation reads.
  std::vector<std::string> ignored;

  // Returns null if the model has no such tensor.
  const TensorView* Find(absl::string_view canonical_name) const;
  // Returns the number of elements of all tensors.
  int64_t CountParameters() const;
};

// Matches names, shapes and dtypes (any mixture of F32, BF16 and F16) one to one. All backbone
// tensors have the same prefix: "model.", no prefix, or kDecisionBackbonePrefix if there is a
// decision head (decision_layout.h).
//
// These tensors are optional:
// - A tied language model may store `lm_head.weight` too, in any of the three types, if its values
//   equal the embedding's. It may also store it instead of the embedding.
// - A language model may have `score.weight` [labels, hidden], a reward head trained with it.
// - An untied language model may lack `lm_head.weight`. It can then only compute vectors, and
//   lacks_lm_head is set.
//
// The experts of a layer are stored one by one, or together in two tensors: `experts.gate_up_proj`
// [experts, 2 x intermediate, hidden], gates before ups, and `experts.down_proj` [experts, hidden,
// intermediate]. The map always names them one by one.
//
// Two kinds of tensors are ignored, as in transformers: `rotary_emb.inv_freq`, which follows from
// the configuration, and the `lm_head.weight` of a classifier or of a model without a head.
//
// Returns DATA_LOSS if tensors are missing, unexpected, or of another shape or dtype. The message
// has the number of tensors of each kind and at most 8 of their names. Calls `check_wanted` while
// the values of a tied head are compared, and returns its error.
absl::StatusOr<WeightMap> MatchWeights(const WeightSource& source, const ModelConfig& config,
                                       const WantedCheck& check_wanted = nullptr);

}  // namespace canopy

#endif  // CORE_CHECKPOINT_WEIGHT_SCHEMA_H_
