#include "server/telemetry/metric_registry.h"

#include "absl/algorithm/container.h"
#include "prometheus/text_serializer.h"

namespace canopy::server {
namespace {

// Returns all combinations of label values. Those of the last label change fastest.
std::vector<prometheus::Labels> Combinations(const std::vector<MetricLabel>& labels) {
  std::vector<prometheus::Labels> combinations = {{}};
  for (const MetricLabel& label : labels) {
    std::vector<prometheus::Labels> longer;
    for (const prometheus::Labels& combination : combinations) {
      for (const std::string& value : label.values) {
        longer.push_back(combination);
        longer.back().emplace(label.name, value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

}  // namespace

MetricRegistry::MetricRegistry() {
  for (const MetricDeclaration& declaration : MetricTable()) {
    Series series;
    if (declaration.closed()) {
      AddClosed(declaration, &series);
    } else {
      series.open = &prometheus::BuildGauge()
                         .Name(declaration.name)
                         .Help(declaration.help)
                         .Register(registry_);
    }
    series_.push_back(std::move(series));
  }
}

void MetricRegistry::AddClosed(const MetricDeclaration& declaration, Series* series) {
  if (declaration.labels.size() > 1) {
    series->stride = declaration.labels[1].values.size();
  }
  const std::vector<prometheus::Labels> combinations = Combinations(declaration.labels);
  switch (declaration.type) {
    case MetricType::kCounter: {
      auto& family = prometheus::BuildCounter()
                         .Name(declaration.name)
                         .Help(declaration.help)
                         .Register(registry_);
      for (const prometheus::Labels& labels : combinations) {
        series->counters.push_back(&family.Add(labels));
      }
      break;
    }
    case MetricType::kGauge: {
      auto& family = prometheus::BuildGauge()
                         .Name(declaration.name)
                         .Help(declaration.help)
                         .Register(registry_);
      for (const prometheus::Labels& labels : combinations) {
        series->gauges.push_back(&family.Add(labels));
      }
      break;
    }
    case MetricType::kHistogram: {
      auto& family = prometheus::BuildHistogram()
                         .Name(declaration.name)
                         .Help(declaration.help)
                         .Register(registry_);
      for (const prometheus::Labels& labels : combinations) {
        series->histograms.push_back(&family.Add(labels, declaration.buckets));
      }
      break;
    }
  }
  // A histogram has a series per bucket, including the infinite one, a sum and a count.
  const size_t each =
      declaration.type == MetricType::kHistogram ? declaration.buckets.size() + 3 : 1;
  num_closed_series_ += combinations.size() * each;
}

size_t MetricRegistry::Place(Metric metric, size_t first, size_t second) const {
  return first * series_[static_cast<size_t>(metric)].stride + second;
}

prometheus::Counter& MetricRegistry::counter(Metric metric, size_t first, size_t second) {
  return *series_[static_cast<size_t>(metric)].counters.at(Place(metric, first, second));
}

prometheus::Gauge& MetricRegistry::gauge(Metric metric, size_t first, size_t second) {
  return *series_[static_cast<size_t>(metric)].gauges.at(Place(metric, first, second));
}

prometheus::Histogram& MetricRegistry::histogram(Metric metric, size_t first, size_t second) {
  return *series_[static_cast<size_t>(metric)].histograms.at(Place(metric, first, second));
}

void MetricRegistry::SetOpen(Metric metric, const std::vector<std::string>& values, double value) {
  Series& series = series_[static_cast<size_t>(metric)];
  const std::vector<MetricLabel>& declared = DeclarationOf(metric).labels;
  prometheus::Labels labels;
  for (size_t i = 0; i < declared.size(); ++i) {
    labels.emplace(declared[i].name, values.at(i));
  }
  const auto found = absl::c_find_if(
      series.open_gauges, [&labels](const auto& entry) { return entry.first == labels; });
  if (found != series.open_gauges.end()) {
    found->second->Set(value);
  } else if (series.open_gauges.size() < kMaxOpenSeries) {
    prometheus::Gauge& gauge = series.open->Add(labels);
    gauge.Set(value);
    series.open_gauges.emplace_back(std::move(labels), &gauge);
  }
}

void MetricRegistry::ClearOpen(Metric metric) {
  Series& series = series_[static_cast<size_t>(metric)];
  for (const auto& entry : series.open_gauges) {
    series.open->Remove(entry.second);
  }
  series.open_gauges.clear();
}

std::string MetricRegistry::Render() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace canopy::server
