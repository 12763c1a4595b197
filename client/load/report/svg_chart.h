// Line charts and stacked bars as inline SVG, for reports that load nothing.
#ifndef CLIENT_LOAD_REPORT_SVG_CHART_H_
#define CLIENT_LOAD_REPORT_SVG_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace canopy::client {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // By rising x; all finite.
  bool reference = false;  // A goal or a plan rather than a measurement: drawn without marks.
};

struct LineChart {
  std::string title;
  std::string x_unit;
  std::string y_unit;
  std::vector<ChartSeries> series;    // At most 4: so many colours there are.
  std::vector<std::string> x_labels;  // Instead of numbers: that of x = 0, 1, 2, ...
  bool log_y = false;                 // Points with y <= 0 are then left out.
  double x_end = 0;                   // Where the axis of numbers ends if no point is beyond.
};

// Draws each series in a colour, dashes and marks of its own, so that those which coincide are all
// seen. Text is escaped. A chart without points says so.
std::string DrawLineChart(const LineChart& chart);

struct BarPart {
  std::string name;
  double value = 0;
};

// One horizontal bar whose parts' lengths are their shares; negative values count as 0.
std::string DrawStackedBar(const std::string& title, const std::string& unit,
                           const std::vector<BarPart>& parts);

// Multiples of 1, 2 or 5 times a power of ten, rising, that span `low` to `high` in at most
// `most` + 1 steps; for axes.
std::vector<double> RoundTicks(double low, double high, int most);

// For HTML text and attributes.
std::string EscapeHtml(const std::string& text);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_REPORT_SVG_CHART_H_
