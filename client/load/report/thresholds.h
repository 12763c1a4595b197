// Limits on figures that determine the exit code of a load test.
#ifndef CLIENT_LOAD_REPORT_THRESHOLDS_H_
#define CLIENT_LOAD_REPORT_THRESHOLDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/report/figures.h"

namespace canopy::client {

struct Threshold {
  std::string figure;      // a name of FiguresOf
  std::string comparison;  // <, <=, > or >=
  double limit = 0;
};

// Parses `FIGURE<=NUMBER,...`, such as latency_p99_ms<=50,error_share<0.001,requests_per_s>=1000;
// empty = none. Returns INVALID_ARGUMENT with the wrong part.
absl::StatusOr<std::vector<Threshold>> ParseThresholds(absl::string_view text);

// Returns one line for each threshold that is not met, such as `latency_p99_ms is 61.2, not <= 50`.
// A figure that is not a number meets no threshold.
std::vector<std::string> MissedThresholds(const std::vector<Threshold>& thresholds,
                                          const std::vector<Figure>& figures);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_REPORT_THRESHOLDS_H_
