#include "client/load/rate_search.h"

#include <cmath>

namespace canopy::client {

double SearchRate(const RateSearchOptions& options, absl::FunctionRef<bool(double rate)> meets) {
  double best = 0;
  double worst = 0;  // the lowest rate that failed; 0 = none
  double rate = options.first_rate;
  for (int probe = 0; probe < options.max_probes; ++probe) {
    (meets(rate) ? best : worst) = rate;
    if (worst == 0) {
      rate = best * 2;
    } else if (best == 0) {
      rate = worst / 2;
    } else if (worst <= best * (1 + options.precision)) {
      break;
    } else {
      rate = std::sqrt(best * worst);
    }
  }
  return best;
}

}  // namespace canopy::client
