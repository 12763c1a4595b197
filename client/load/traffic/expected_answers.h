// What verify mode compares with: the answer of every path alone, computed once.
#ifndef CLIENT_LOAD_TRAFFIC_EXPECTED_ANSWERS_H_
#define CLIENT_LOAD_TRAFFIC_EXPECTED_ANSWERS_H_

#include "absl/status/status.h"
#include "client/client.h"
#include "client/load/traffic/request_pool.h"

namespace canopy::client {

// Fills in the expected answers of `pool` from the path backend of `client`'s server. What Client
// returns, or FAILED_PRECONDITION when the server answered by another backend.
absl::Status ExpectAnswers(Client* client, RequestPool* pool);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_EXPECTED_ANSWERS_H_
