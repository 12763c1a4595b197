// How a forward runs whose outputs are to be differentiated.
#ifndef CORE_MODEL_TRAINING_OPTIONS_H_
#define CORE_MODEL_TRAINING_OPTIONS_H_

namespace canopy {

struct TrainingOptions {
  // The share of attention's probabilities that are dropped, 0 <= p < 1, by LibTorch's generator. A
  // node that paths share is computed once, so they share its randomness too: the first forward
  // over a tree says so in the log.
  double attention_dropout = 0;
  // Of each layer, keep its input only; backward runs the layer again, with the same randomness.
  bool recompute_layers = false;
};

}  // namespace canopy

#endif  // CORE_MODEL_TRAINING_OPTIONS_H_
