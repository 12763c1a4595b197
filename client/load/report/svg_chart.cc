#include "client/load/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace canopy::client {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 240;
constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kTop = 26;
constexpr double kBottom = 38;
constexpr int kTicks = 6;
constexpr int kColours = 7;  // classes c0 to c6 of the report's style sheet

// The dashes of the first, second, ... series. A later series is drawn over earlier ones, which are
// visible in its gaps.
constexpr const char* kDashes[] = {"none", "8 5", "2.5 5", "12 4 2 4"};

const char* DashesOf(size_t series) { return kDashes[series % std::size(kDashes)]; }

// Returns the mark of a point: a disk, a larger square around it, or a cross that extends beyond
// both. `content` is the content of the element.
std::string Mark(size_t series, double x, double y, const std::string& content) {
  switch (series % 3) {
    case 0:
      return absl::StrFormat("<circle class='dot c%d' cx='%.1f' cy='%.1f' r='2'>%s</circle>",
                             series, x, y, content);
    case 1:
      return absl::StrFormat(
          "<rect class='dot hollow c%d' x='%.1f' y='%.1f' width='8' height='8'>%s</rect>", series,
          x - 4, y - 4, content);
    default:
      return absl::StrFormat(
          "<path class='dot hollow c%d' d='M%.1f %.1fl10 10m-10 0l10 -10'>%s</path>", series, x - 5,
          y - 5, content);
  }
}

std::string Shown(double value) {
  if (value != 0 && (std::abs(value) < 1e-4 || std::abs(value) >= 1e6)) {
    return absl::StrFormat("%.0e", value);
  }
  return absl::StrCat(value);
}

// Returns powers of ten around the values.
std::vector<double> DecadeTicks(double low, double high) {
  std::vector<double> ticks;
  for (double exponent = std::floor(std::log10(low));; ++exponent) {
    ticks.push_back(std::pow(10, exponent));
    if (ticks.back() >= high && ticks.size() > 1) {
      return ticks;
    }
  }
}

// One axis: the range of its values, and its ticks.
struct Axis {
  std::vector<double> ticks;
  double low = 0;
  double high = 0;
  bool log = false;

  // Returns the position of a value: 0 at the low end, 1 at the high end.
  double Place(double value) const {
    const auto scaled = [this](double v) { return log ? std::log10(v) : v; };
    const double span = scaled(high) - scaled(low);
    return span == 0 ? 0 : (scaled(value) - scaled(low)) / span;
  }
};

Axis AxisFromTicks(std::vector<double> ticks, bool log) {
  Axis axis;
  axis.low = ticks.front();
  axis.high = ticks.back();
  axis.ticks = std::move(ticks);
  axis.log = log;
  return axis;
}

// Returns an axis from 0, or from `low` if that is less, to exactly `high`: a time axis ends where
// the data ends.
Axis TightAxis(double low, double high) {
  Axis axis;
  axis.low = std::min(low, 0.0);
  axis.high = high;
  for (const double tick : RoundTicks(axis.low, high, kTicks)) {
    if (tick <= high) {
      axis.ticks.push_back(tick);
    }
  }
  return axis;
}

class LineDrawing {
 public:
  explicit LineDrawing(const LineChart& chart) : chart_(chart) {}

  std::string Draw() {
    absl::StrAppend(&svg_, "<figure><figcaption>", EscapeHtml(chart_.title), Legend(),
                    "</figcaption>");
    if (!FindRange()) {
      return absl::StrCat(svg_, "<p>no data</p></figure>\n");
    }
    absl::StrAppendFormat(&svg_, "<svg viewBox='0 0 %.0f %.0f' role='img'>", kWidth, kHeight);
    DrawAxes();
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      DrawSeries(chart_.series[i], i);
    }
    return absl::StrCat(svg_, "</svg></figure>\n");
  }

 private:
  bool IsShown(const std::pair<double, double>& point) const {
    return !chart_.log_y || point.second > 0;
  }

  std::string Legend() const {
    std::string legend;
    for (size_t i = 0; chart_.series.size() > 1 && i < chart_.series.size(); ++i) {
      absl::StrAppend(&legend, " <span class='name'>", Sample(i), EscapeHtml(chart_.series[i].name),
                      "</span>");
    }
    return legend;
  }

  // Returns a sample of a series, for the legend.
  std::string Sample(size_t series) const {
    return absl::StrFormat(
        "<svg class='sample' viewBox='0 0 32 12'><polyline class='line c%d' stroke-dasharray='%s' "
        "points='0,6 32,6'/>%s</svg>",
        series, DashesOf(series), chart_.series[series].reference ? "" : Mark(series, 16, 6, ""));
  }

  bool FindRange() {
    bool any = false;
    double low_x = 0;
    double high_x = 0;
    double low_y = 0;
    double high_y = 0;
    for (const ChartSeries& series : chart_.series) {
      for (const auto& point : series.points) {
        if (!IsShown(point)) {
          continue;
        }
        low_x = any ? std::min(low_x, point.first) : point.first;
        high_x = any ? std::max(high_x, point.first) : point.first;
        low_y = any ? std::min(low_y, point.second) : point.second;
        high_y = any ? std::max(high_y, point.second) : point.second;
        any = true;
      }
    }
    if (any) {
      std::vector<double> places(chart_.x_labels.size());
      std::iota(places.begin(), places.end(), 0);
      x_ = places.empty() ? TightAxis(low_x, std::max(high_x, chart_.x_end))
                          : AxisFromTicks(std::move(places), false);
      y_ = AxisFromTicks(chart_.log_y ? DecadeTicks(low_y, high_y)
                                      : RoundTicks(std::min(low_y, 0.0), high_y, kTicks),
                         chart_.log_y);
    }
    return any;
  }

  double X(double value) const { return kLeft + x_.Place(value) * (kWidth - kLeft - kRight); }
  double Y(double value) const {
    return kHeight - kBottom - y_.Place(value) * (kHeight - kTop - kBottom);
  }

  void DrawAxes() {
    for (const double tick : y_.ticks) {
      absl::StrAppendFormat(&svg_,
                            "<line class='grid' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>"
                            "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>",
                            kLeft, kWidth - kRight, Y(tick), Y(tick), kLeft - 6, Y(tick) + 4,
                            Shown(tick));
    }
    for (size_t i = 0; i < x_.ticks.size(); ++i) {
      const std::string label =
          chart_.x_labels.empty() ? Shown(x_.ticks[i]) : EscapeHtml(chart_.x_labels[i]);
      absl::StrAppendFormat(&svg_, "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>",
                            X(x_.ticks[i]), kHeight - kBottom + 16, label);
    }
    absl::StrAppendFormat(&svg_,
                          "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>"
                          "<text x='4' y='10'>%s</text>",
                          kWidth - kRight, kHeight - 4, EscapeHtml(chart_.x_unit),
                          EscapeHtml(chart_.y_unit));
  }

  void DrawSeries(const ChartSeries& series, size_t colour) {
    std::string line;
    size_t num_shown = 0;
    for (const auto& point : series.points) {
      if (IsShown(point)) {
        absl::StrAppendFormat(&line, "%.1f,%.1f ", X(point.first), Y(point.second));
        ++num_shown;
      }
    }
    absl::StrAppend(&svg_, "<polyline class='line c", colour, "' stroke-dasharray='",
                    DashesOf(colour), "' points='", line, "'/>");
    if (series.reference) {
      return;
    }
    // A single point is not a line, and a few points are easier to read with marks.
    constexpr size_t kMaxMarked = 40;
    for (const auto& point : series.points) {
      if (num_shown <= kMaxMarked && IsShown(point)) {
        svg_ += Mark(
            colour, X(point.first), Y(point.second),
            absl::StrFormat("<title>%s %s: %s %s</title>", EscapeHtml(series.name),
                            Shown(point.first), Shown(point.second), EscapeHtml(chart_.y_unit)));
      }
    }
  }

  const LineChart& chart_;
  std::string svg_;
  Axis x_;
  Axis y_;
};

}  // namespace

std::string DrawLineChart(const LineChart& chart) { return LineDrawing(chart).Draw(); }

std::string DrawStackedBar(const std::string& title, const std::string& unit,
                           const std::vector<BarPart>& parts) {
  double sum = 0;
  for (const BarPart& part : parts) {
    sum += std::max(part.value, 0.0);
  }
  std::string svg = absl::StrCat("<figure><figcaption>", EscapeHtml(title), "</figcaption>");
  if (sum <= 0) {
    return absl::StrCat(svg, "<p>no data</p></figure>\n");
  }
  absl::StrAppendFormat(&svg, "<svg viewBox='0 0 %.0f 28' role='img'>", kWidth);
  std::string legend = "<ul class='legend'>";
  double x = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double value = std::max(parts[i].value, 0.0);
    const double width = value / sum * kWidth;
    absl::StrAppendFormat(&svg, "<rect class='bar c%d' x='%.2f' y='2' width='%.2f' height='24'/>",
                          i % kColours, x, width);
    absl::StrAppendFormat(&legend, "<li><span class='key c%d'></span>%s %.3f %s (%.0f%%)</li>",
                          i % kColours, EscapeHtml(parts[i].name), value, EscapeHtml(unit),
                          100 * value / sum);
    x += width;
  }
  return absl::StrCat(svg, "</svg>", legend, "</ul></figure>\n");
}

std::vector<double> RoundTicks(double low, double high, int most) {
  const double span = high > low ? high - low : std::max(std::abs(high), 1.0);
  const double rough = span / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step);
  for (int i = 0; ticks.empty() || ticks.back() < high; ++i) {
    ticks.push_back((first + i) * step);
  }
  return ticks;
}

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

}  // namespace canopy::client
