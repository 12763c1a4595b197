// The series of all declared metrics (metric_table.h). All closed series are made at the start, so
// that counting takes an index and an atomic addition.
#ifndef SERVER_TELEMETRY_METRIC_REGISTRY_H_
#define SERVER_TELEMETRY_METRIC_REGISTRY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/labels.h"
#include "prometheus/registry.h"
#include "server/telemetry/metric_table.h"

namespace canopy::server {

// Thread-safe, except for SetOpen and ClearOpen, which only one thread may call at a time.
class MetricRegistry {
 public:
  MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  // The series of a closed metric. `first` and `second` are the indices of its label values in the
  // declared sets. Each function is for metrics of its type.
  prometheus::Counter& counter(Metric metric, size_t first = 0, size_t second = 0);
  prometheus::Gauge& gauge(Metric metric, size_t first = 0, size_t second = 0);
  prometheus::Histogram& histogram(Metric metric, size_t first = 0, size_t second = 0);

  // Sets the series of an open gauge with these label values, in the declared order. Adds no series
  // beyond kMaxOpenSeries.
  void SetOpen(Metric metric, const std::vector<std::string>& values, double value);
  // Removes all series of the metric.
  void ClearOpen(Metric metric);

  // Returns the number of series of all closed metrics. A histogram has one for each bucket and two
  // more.
  size_t num_closed_series() const { return num_closed_series_; }

  // Returns all series in Prometheus' text format.
  std::string Render() const;

 private:
  struct Series {
    size_t stride = 1;  // the number of values of the second label
    std::vector<prometheus::Counter*> counters;
    std::vector<prometheus::Gauge*> gauges;
    std::vector<prometheus::Histogram*> histograms;
    prometheus::Family<prometheus::Gauge>* open = nullptr;
    std::vector<std::pair<prometheus::Labels, prometheus::Gauge*>> open_gauges;
  };

  void AddClosed(const MetricDeclaration& declaration, Series* series);
  size_t Place(Metric metric, size_t first, size_t second) const;

  prometheus::Registry registry_;
  std::vector<Series> series_;  // indexed by Metric
  size_t num_closed_series_ = 0;
};

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRIC_REGISTRY_H_
