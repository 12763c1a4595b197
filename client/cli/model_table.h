// Formats loaded models as text.
#ifndef CLIENT_CLI_MODEL_TABLE_H_
#define CLIENT_CLI_MODEL_TABLE_H_

#include <string>

#include "canopy/v1/scorer.pb.h"
#include "client/cli/terminal_text.h"

namespace canopy::client {

// Returns one block per model, with one `name  value` line per property and the limits sorted by
// name.
std::string ModelTables(const v1::ListModelsResponse& response, const Palette& palette);

}  // namespace canopy::client

#endif  // CLIENT_CLI_MODEL_TABLE_H_
