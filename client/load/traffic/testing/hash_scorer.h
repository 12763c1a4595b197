// A scorer without a model: the score of a candidate is a hash of its path, so that the answer for
// another path, or in another order, has a different score.
#ifndef CLIENT_LOAD_TRAFFIC_TESTING_HASH_SCORER_H_
#define CLIENT_LOAD_TRAFFIC_TESTING_HASH_SCORER_H_

#include "canopy/v1/scorer.pb.h"
#include "client/load/traffic/request_pool.h"

namespace canopy::client {

// Returns the right answer to `request`, from the path backend if requested.
v1::ScoreResponse HashAnswer(const v1::ScoreRequest& request);

// Returns a model with 1,000 tokens and paths of up to 2,048.
v1::Model HashModel();

// Returns six requests of two questions with three candidates, each with its right answer.
RequestPool HashPool();

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TESTING_HASH_SCORER_H_
