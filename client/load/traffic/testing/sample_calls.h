// Calls for tests of counts and reports.
#ifndef CLIENT_LOAD_TRAFFIC_TESTING_SAMPLE_CALLS_H_
#define CLIENT_LOAD_TRAFFIC_TESTING_SAMPLE_CALLS_H_

#include "client/load/traffic/tally.h"

namespace canopy::client {

// Returns a tally of 10 calls: 6 answered (4 of them within 50 ms), 2 refused, one cancelled and
// one killed.
Tally TenCalls();

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TESTING_SAMPLE_CALLS_H_
