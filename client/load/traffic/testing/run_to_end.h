// Runs load tests inside unit tests.
#ifndef CLIENT_LOAD_TRAFFIC_TESTING_RUN_TO_END_H_
#define CLIENT_LOAD_TRAFFIC_TESTING_RUN_TO_END_H_

#include "absl/time/time.h"
#include "client/load/traffic/load_driver.h"
#include "client/load/traffic/load_result.h"
#include "client/load/traffic/request_pool.h"

namespace canopy::client {

// Longer than any test runs.
inline constexpr absl::Duration kForever = absl::Hours(1);

// Runs a load test until all its requests have ended. Returns the result, and expects its totals to
// add up. `interval`, which may be null, receives the counts of the whole run.
LoadResult RunToEnd(const DriverOptions& options, RequestPool* pool, Interval* interval = nullptr);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_TRAFFIC_TESTING_RUN_TO_END_H_
