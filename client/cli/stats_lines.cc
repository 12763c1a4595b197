#include "client/cli/stats_lines.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/enum_names.h"

namespace canopy::client {
namespace {

std::string Shown(const std::string& text) { return text.empty() ? "-" : EscapeForTerminal(text); }

// Explain computes nothing, so nothing is saved.
std::string Saved(const v1::Stats& stats) {
  if (stats.input_tokens() == 0 || stats.computed_tokens() == 0) {
    return "-";
  }
  const double share =
      static_cast<double>(stats.computed_tokens()) / static_cast<double>(stats.input_tokens());
  return absl::StrFormat("%.1f%%", 100 * (1 - share));
}

}  // namespace

std::string StatsLines(const v1::Stats& stats, const Palette& palette) {
  return absl::StrCat(
      palette.Dim("route   "), "backend ", EnumName(stats.backend()), "  policy ",
      EnumName(stats.policy()), "  reason ", Shown(stats.reason()), "  layout ",
      Shown(stats.layout()), "  parts ", stats.parts(), "\n", palette.Dim("tokens  "), "path ",
      stats.path_tokens(), "  input ", stats.input_tokens(), "  unique ", stats.unique_tokens(),
      "  computed ", stats.computed_tokens(), "  saved ", Saved(stats), "\n",
      palette.Dim("ms      "),
      absl::StrFormat("decode %.3f  queue %.3f  plan %.3f  device %.3f  encode_queue %.3f  "
                      "encode %.3f  total %.3f\n",
                      stats.decode_ms(), stats.queue_ms(), stats.plan_ms(), stats.device_ms(),
                      stats.encode_queue_ms(), stats.encode_ms(), stats.total_ms()));
}

}  // namespace canopy::client
