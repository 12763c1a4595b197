// The footer under a score table or a tree: how the request ran and how much that saved.
#ifndef CLIENT_CLI_STATS_LINES_H_
#define CLIENT_CLI_STATS_LINES_H_

#include <string>

#include "canopy/v1/types.pb.h"
#include "client/cli/terminal_text.h"

namespace canopy::client {

// Returns three lines with line ends: the route, the tokens (saved = 1 - computed / input) and the
// time of each stage.
std::string StatsLines(const v1::Stats& stats, const Palette& palette);

}  // namespace canopy::client

#endif  // CLIENT_CLI_STATS_LINES_H_
