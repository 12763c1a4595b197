// Reads a value of --model.
#ifndef SERVER_MODEL_SOURCE_H_
#define SERVER_MODEL_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/model_options.h"

namespace canopy::server {

// Reads values of the form [NAME=]FOLDER; a model without a NAME is called as the last part of its
// path, without .json. INVALID_ARGUMENT, as of FlagError, unless there is at least one and each has
// a folder and a name of its own.
absl::StatusOr<std::vector<ModelSource>> ParseModelSources(absl::Span<const std::string> texts);

}  // namespace canopy::server

#endif  // SERVER_MODEL_SOURCE_H_
