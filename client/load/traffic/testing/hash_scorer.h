// A model without a model: a candidate's score is a hash of its path, so that an answer for another
// path, or in another order, has another score.
#ifndef CLIENT_LOAD_TRAFFIC_TESTING_HASH_SCORER_H_
#define CLIENT_LOAD_TRAFFIC_TESTING_HASH_SCORER_H_

#include "canopy/v1/scorer.pb.h"
#include "client/load/traffic/request_pool.h"

namespace canopy::client {

// The right answer to `request`, from the path backend where that was asked for.
v1::ScoreResponse HashAnswer(const v1::ScoreRequest& request);

// A model of 1,000 tokens and paths of up to 2,048.
v1::Model HashModel();

// Six requests of two questions with three candidates, each with its right answer.
RequestPool HashPool();

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TESTING_HASH_SCORER_H_
