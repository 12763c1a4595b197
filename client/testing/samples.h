// A small request with everything in it, and the right answers to it, written out by hand. Tests
// spoil copies of them.
#ifndef CLIENT_TESTING_SAMPLES_H_
#define CLIENT_TESTING_SAMPLES_H_

#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

// Two questions. `color`, a choice: prefix 5 6, candidates red [7 8], blue [9] and (without an id)
// []. `odd`, boolean, without a prefix: yes [1 2 3], no [1 4]. All outputs are asked for.
v1::ScoreRequest SampleRequest();

// blue wins `color` with 2.5; `odd` is true; its `no` is scored too.
v1::ScoreResponse SampleResponse();

// As SampleResponse, but red of `color` is unscored, and so there is no answer and no probability.
v1::ScoreResponse UnscoredResponse();

v1::ExplainResponse SampleExplanation();

v1::Model SampleModel();

}  // namespace canopy::client

#endif  // CLIENT_TESTING_SAMPLES_H_
