// Forecasts how long it would take at the start to measure the costs of the backends, from the size
// of the model alone. The same model on the same kind of device therefore has the same policy at
// every start, however busy the machine is.
#ifndef CORE_RUNTIME_MEASURE_FORECAST_H_
#define CORE_RUNTIME_MEASURE_FORECAST_H_

#include "core/engine/types.h"

namespace canopy {

// The longest forecast with which --policy=auto measures.
inline constexpr double kMaxMeasureSeconds = 2;

// Returns the time of the least work that MeasureRouteCosts does: kMinShapes request shapes, each
// with all of its runs, on every backend that may run. Infinite for a model of unknown size.
// docs/adr/0006-measured-routing.md contains the measurements behind the constants.
double ForecastMeasureSeconds(const ModelInfo& model);

}  // namespace canopy

#endif  // CORE_RUNTIME_MEASURE_FORECAST_H_
