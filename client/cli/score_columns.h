// The columns of a score table: those that an answer needs, and the cells of a candidate.
#ifndef CLIENT_CLI_SCORE_COLUMNS_H_
#define CLIENT_CLI_SCORE_COLUMNS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "canopy/v1/scorer.pb.h"
#include "client/cli/text_table.h"

namespace canopy::client {

struct ScoreColumn {
  std::string title;
  // Returns the cell of a scored candidate. `row` is its row in the answer's vectors.
  std::function<std::string(const v1::CandidateResult& result, uint64_t row)> cell;
  TextTable::Align align = TextTable::Align::kRight;
};

// Returns the columns for the outputs that at least one candidate of `response` has, in a fixed
// order. `response` must outlive the columns, which refer to it.
std::vector<ScoreColumn> ColumnsOf(const v1::ScoreResponse& response);

}  // namespace canopy::client

#endif  // CLIENT_CLI_SCORE_COLUMNS_H_
