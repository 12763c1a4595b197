#include "client/load/report/svg_chart.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RoundTicksTest, SpanTheRangeInRoundSteps) {
  EXPECT_THAT(RoundTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(RoundTicks(0, 11, 5), ElementsAre(0, 5, 10, 15));
  EXPECT_THAT(RoundTicks(3, 3, 4), ElementsAre(3));
  EXPECT_THAT(RoundTicks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  for (const double high : {1e-9, 0.07, 1.0, 999.0, 3e12}) {
    const std::vector<double> ticks = RoundTicks(0, high, 6);
    EXPECT_GE(ticks.back(), high);
    EXPECT_LE(ticks.size(), 8U);
  }
}

TEST(DrawLineChartTest, PlacesPointsBetweenTheAxes) {
  LineChart chart{"a <chart>", "s", "ms", {{"one", {{0, 0}, {10, 100}}}}, {}, false};
  const std::string svg = DrawLineChart(chart);
  // The points go from the left and bottom to the right and top of the plot.
  EXPECT_THAT(svg, HasSubstr("points='64.0,202.0 536.0,26.0 '"));
  EXPECT_THAT(svg, HasSubstr("a &lt;chart&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(DrawLineChartTest, SeriesThatCoincideAreAllSeen) {
  const std::vector<std::pair<double, double>> same = {{0, 1}, {1, 1}};
  const std::string svg = DrawLineChart(
      {"t", "", "", {{"a", same}, {"b", same}, {"c", same}, {"goal", same, true}}, {}, false});
  // A line over another one has gaps, and there are three kinds of marks.
  for (const char* dashes : {"c0' stroke-dasharray='none'", "c1' stroke-dasharray='8 5'",
                             "c2' stroke-dasharray='2.5 5'", "c3' stroke-dasharray='12 4 2 4'"}) {
    EXPECT_THAT(svg, HasSubstr(dashes));
  }
  EXPECT_THAT(svg, HasSubstr("<circle class='dot c0'"));
  EXPECT_THAT(svg, HasSubstr("<rect class='dot hollow c1'"));
  EXPECT_THAT(svg, HasSubstr("<path class='dot hollow c2'"));
  EXPECT_THAT(svg, HasSubstr("goal"));
  EXPECT_THAT(svg, Not(HasSubstr("goal 0: 1"))) << "a reference line has no marks";
}

TEST(DrawLineChartTest, LogAxesLeaveOutWhatHasNoLogarithm) {
  LineChart chart{"t", "", "", {{"one", {{0, 0}, {1, 1}, {2, 100}}}}, {"a", "b", "c"}, true};
  const std::string svg = DrawLineChart(chart);
  EXPECT_THAT(svg, HasSubstr("points='300.0,202.0 536.0,26.0 '"));
  EXPECT_THAT(svg, HasSubstr(">c</text>"));
}

TEST(DrawLineChartTest, AChartWithoutPointsShowsANote) {
  EXPECT_THAT(DrawLineChart({"t", "", "", {{"one", {}}}, {}, false}), HasSubstr("no data"));
  EXPECT_THAT(DrawLineChart({"t", "", "", {{"one", {{0, 0}}}}, {}, true}), HasSubstr("no data"));
  EXPECT_THAT(DrawLineChart({"t", "", "", {{"one", {{5, 7}}}}, {}, false}), Not(HasSubstr("nan")));
}

TEST(DrawStackedBarTest, PartsAreShares) {
  const std::string svg = DrawStackedBar("t", "ms", {{"a", 1}, {"b", 3}, {"c", -2}});
  EXPECT_THAT(svg, HasSubstr("x='0.00' y='2' width='140.00'"));
  EXPECT_THAT(svg, HasSubstr("x='140.00' y='2' width='420.00'"));
  EXPECT_THAT(svg, HasSubstr("b 3.000 ms (75%)"));
  EXPECT_THAT(DrawStackedBar("t", "ms", {{"a", 0}}), HasSubstr("no data"));
}

}  // namespace
}  // namespace canopy::client
