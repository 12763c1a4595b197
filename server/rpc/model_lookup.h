// Finds loaded models by the name that a client gives.
#ifndef SERVER_RPC_MODEL_LOOKUP_H_
#define SERVER_RPC_MODEL_LOOKUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/engine.h"
#include "core/engine/types.h"

namespace canopy::server {

// Returns the model; '' = the first one. Returns NOT_FOUND, with the names of the loaded models, if
// there is none.
absl::StatusOr<std::shared_ptr<const ModelInfo>> FindLoadedModel(const Engine& engine,
                                                                 absl::string_view name);

}  // namespace canopy::server

#endif  // SERVER_RPC_MODEL_LOOKUP_H_
