// Computes the answers that verify mode compares with: every path alone, once.
#ifndef CLIENT_LOAD_TRAFFIC_EXPECTED_ANSWERS_H_
#define CLIENT_LOAD_TRAFFIC_EXPECTED_ANSWERS_H_

#include "absl/status/status.h"
#include "client/client.h"
#include "client/load/traffic/request_pool.h"

namespace canopy::client {

// Sets the expected answers of `pool` from the path backend of `client`'s server. Returns the
// errors of Client, or FAILED_PRECONDITION if the server used another backend.
absl::Status ExpectAnswers(Client* client, RequestPool* pool);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_EXPECTED_ANSWERS_H_
