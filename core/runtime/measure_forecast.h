// How long it would take at the start to measure what backends cost, told from the model's size
// alone: the same model on the same kind of device has the same policy at every start, however busy
// the machine is.
#ifndef CORE_RUNTIME_MEASURE_FORECAST_H_
#define CORE_RUNTIME_MEASURE_FORECAST_H_

#include "core/engine/types.h"

namespace canopy {

// --policy=auto measures up to this.
inline constexpr double kMaxMeasureSeconds = 2;

// What the least that MeasureRouteCosts does takes: kMinShapes request shapes, each with all of
// its runs, on every backend that may run. Infinite for a model without a size.
// docs/adr/0006-measured-routing.md has the measurements behind the constants.
double ForecastMeasureSeconds(const ModelInfo& model);

}  // namespace canopy

#endif  // CORE_RUNTIME_MEASURE_FORECAST_H_
