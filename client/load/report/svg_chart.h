// Line charts and stacked bars as inline SVG, for reports without external resources.
#ifndef CLIENT_LOAD_REPORT_SVG_CHART_H_
#define CLIENT_LOAD_REPORT_SVG_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace canopy::client {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // in order of increasing x; all finite
  bool reference = false;  // a goal or a plan, not a measurement: drawn without marks
};

struct LineChart {
  std::string title;
  std::string x_unit;
  std::string y_unit;
  std::vector<ChartSeries> series;    // at most 4, the number of distinct colours
  std::vector<std::string> x_labels;  // labels for x = 0, 1, 2, ... instead of numbers
  bool log_y = false;                 // points with y <= 0 are left out
  double x_end = 0;                   // the end of a numeric axis if no point is beyond it
};

// Draws each series with its own colour, dashes and marks, so that series with equal values are all
// visible. Text is escaped. A chart without points shows a note.
std::string DrawLineChart(const LineChart& chart);

struct BarPart {
  std::string name;
  double value = 0;
};

// Draws one horizontal bar with parts in proportion to their values; negative values count as 0.
std::string DrawStackedBar(const std::string& title, const std::string& unit,
                           const std::vector<BarPart>& parts);

// Returns increasing multiples of 1, 2 or 5 times a power of ten that span `low` to `high` in at
// most `most` + 1 steps, for axes.
std::vector<double> RoundTicks(double low, double high, int most);

// Escapes text for HTML text and attributes.
std::string EscapeHtml(const std::string& text);

}  // namespace canopy::client

#endif  // CLIENT_LOAD_REPORT_SVG_CHART_H_
