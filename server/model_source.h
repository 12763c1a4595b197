// Parses the values of --model.
#ifndef SERVER_MODEL_SOURCE_H_
#define SERVER_MODEL_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/model_options.h"

namespace canopy::server {

// Parses values of the form [NAME=]FOLDER. The default NAME is the last part of the path, without
// .json. Returns the INVALID_ARGUMENT of FlagError unless there is at least one value and each has
// a folder and a unique name.
absl::StatusOr<std::vector<ModelSource>> ParseModelSources(absl::Span<const std::string> texts);

}  // namespace canopy::server

#endif  // SERVER_MODEL_SOURCE_H_
