#include "client/load/report/thresholds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace canopy::client {
namespace {

// Returns the figure with this name; null if there is none.
const Figure* FindFigure(const std::vector<Figure>& figures, absl::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [name](const Figure& figure) { return figure.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

absl::StatusOr<Threshold> ParseThreshold(absl::string_view text) {
  const size_t at = text.find_first_of("<>");
  Threshold threshold;
  if (at != absl::string_view::npos) {
    const size_t size = text.substr(at + 1, 1) == "=" ? 2 : 1;
    threshold.figure = std::string(text.substr(0, at));
    threshold.comparison = std::string(text.substr(at, size));
    if (absl::SimpleAtod(text.substr(at + size), &threshold.limit) &&
        std::isfinite(threshold.limit)) {
      if (FindFigure(FiguresOf(LoadResult()), threshold.figure) == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("threshold '", text,
                                                       "': there is no figure '", threshold.figure,
                                                       "'; --json writes all of them"));
      }
      return threshold;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "threshold '", text, "' is not FIGURE<=NUMBER (or <, >, >=), as latency_p99_ms<=50"));
}

bool IsMet(const Threshold& threshold, double value) {
  if (threshold.comparison == "<") {
    return value < threshold.limit;
  }
  if (threshold.comparison == "<=") {
    return value <= threshold.limit;
  }
  return threshold.comparison == ">" ? value > threshold.limit : value >= threshold.limit;
}

}  // namespace

absl::StatusOr<std::vector<Threshold>> ParseThresholds(absl::string_view text) {
  std::vector<Threshold> thresholds;
  if (text.empty()) {
    return thresholds;
  }
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    absl::StatusOr<Threshold> threshold = ParseThreshold(part);
    if (!threshold.ok()) {
      return threshold.status();
    }
    thresholds.push_back(*std::move(threshold));
  }
  return thresholds;
}

std::vector<std::string> MissedThresholds(const std::vector<Threshold>& thresholds,
                                          const std::vector<Figure>& figures) {
  std::vector<std::string> missed;
  for (const Threshold& threshold : thresholds) {
    const Figure* figure = FindFigure(figures, threshold.figure);
    if (figure == nullptr || !IsMet(threshold, figure->value)) {
      missed.push_back(absl::StrCat(threshold.figure, " is ",
                                    figure == nullptr ? "absent" : absl::StrCat(figure->value),
                                    ", not ", threshold.comparison, " ", threshold.limit));
    }
  }
  return missed;
}

}  // namespace canopy::client
