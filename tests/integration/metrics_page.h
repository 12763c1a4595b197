// Reads the page of a server's metrics listener.
#ifndef TESTS_INTEGRATION_METRICS_PAGE_H_
#define TESTS_INTEGRATION_METRICS_PAGE_H_

#include <string>

namespace canopy::testing {

inline constexpr char kQueuedRequests[] = "canopy_queued_requests{priority=\"normal\"}";

// Returns the value of one line of the metrics page; -1 = there is none.
double MetricValue(const std::string& page, const std::string& series);

// Returns the answer of an HTTP server on loopback to `request`, which must ask it to close the
// connection.
std::string Http(const std::string& address, const std::string& request);

std::string Scrape(const std::string& address);

// Polls until the page shows `value`, which another thread is about to change.
void AwaitMetric(const std::string& address, const std::string& series, double value);

}  // namespace canopy::testing

#endif  // TESTS_INTEGRATION_METRICS_PAGE_H_
