// The numbers of a load test by name, for reports and thresholds.
#ifndef CLIENT_LOAD_REPORT_FIGURES_H_
#define CLIENT_LOAD_REPORT_FIGURES_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "client/load/traffic/load_result.h"

namespace canopy::client {

struct Figure {
  std::string name;  // with its unit: latency_p99_ms, requests_per_s
  double value = 0;
};

// The reported quantiles, and their names.
struct NamedQuantile {
  const char* name;
  double quantile;
};
inline constexpr NamedQuantile kQuantiles[] = {{"p50", 0.5},  {"p90", 0.9},     {"p95", 0.95},
                                               {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};

// Returns every figure, in a fixed order. The names do not depend on the result.
std::vector<Figure> FiguresOf(const LoadResult& result);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_REPORT_FIGURES_H_
