// What a server's metrics listener shows.
#ifndef TESTS_INTEGRATION_METRICS_PAGE_H_
#define TESTS_INTEGRATION_METRICS_PAGE_H_

#include <string>

namespace canopy::testing {

inline constexpr char kQueuedRequests[] = "canopy_queued_requests{priority=\"normal\"}";

// The value of one line of the metrics page; -1 = there is none.
double MetricValue(const std::string& page, const std::string& series);

// What an HTTP server on loopback answers to `request`, which must have it close the connection.
std::string Http(const std::string& address, const std::string& request);

std::string Scrape(const std::string& address);

// Polls until the page shows `value`: for what another thread is about to change.
void AwaitMetric(const std::string& address, const std::string& series, double value);

}  // namespace canopy::testing

#endif  // TESTS_INTEGRATION_METRICS_PAGE_H_
