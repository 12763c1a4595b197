// Prints docs/METRICS.md.
#include <cstdio>

#include "server/telemetry/metric_table.h"

int main() {
  std::fputs(canopy::server::MetricsPage().c_str(), stdout);
  return 0;
}
