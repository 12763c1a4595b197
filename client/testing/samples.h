// A small request with all features, and the right answers to it, written by hand. Tests modify
// copies of them.
#ifndef CLIENT_TESTING_SAMPLES_H_
#define CLIENT_TESTING_SAMPLES_H_

#include "canopy/v1/scorer.pb.h"

namespace canopy::client {

// Two questions. `color` is a choice with prefix 5 6 and candidates red [7 8], blue [9] and,
// without an id, []. `odd` is boolean without a prefix: yes [1 2 3], no [1 4]. All outputs are
// requested.
v1::ScoreRequest SampleRequest();

// blue wins `color` with 2.5; `odd` is true; its `no` is scored too.
v1::ScoreResponse SampleResponse();

// Like SampleResponse, but red of `color` is unscored, so there is no answer and no probability.
v1::ScoreResponse UnscoredResponse();

v1::ExplainResponse SampleExplanation();

v1::Model SampleModel();

}  // namespace canopy::client

#endif  // CLIENT_TESTING_SAMPLES_H_
