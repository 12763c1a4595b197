// Options of a forward whose outputs are differentiated.
#ifndef CORE_MODEL_TRAINING_OPTIONS_H_
#define CORE_MODEL_TRAINING_OPTIONS_H_

namespace canopy {

struct TrainingOptions {
  // The fraction of attention probabilities that are dropped, 0 <= p < 1, drawn from LibTorch's
  // generator. Paths that share a node also share its dropped probabilities, because the node is
  // computed once. The first forward over a tree logs a warning about this.
  double attention_dropout = 0;
  // If true, only the input of each layer is kept, and the backward pass runs the layer again with
  // the same random numbers.
  bool recompute_layers = false;
};

}  // namespace canopy

#endif  // CORE_MODEL_TRAINING_OPTIONS_H_
