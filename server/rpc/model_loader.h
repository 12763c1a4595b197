// Where models come from: LibTorch in the real program, fakes in tests.
#ifndef SERVER_RPC_MODEL_LOADER_H_
#define SERVER_RPC_MODEL_LOADER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "core/engine/model_options.h"
#include "core/engine/model_runner.h"
#include "core/engine/replacement.h"

namespace canopy::server {

// Loads a model and makes it ready. `replacement` is null at the start; otherwise the model is to
// take the place of replacement->served, and has the version after its. RESOURCE_EXHAUSTED where
// memory is short, DATA_LOSS for a bad checkpoint, NOT_FOUND for what is not there.
using ModelLoader = std::function<absl::StatusOr<std::unique_ptr<ModelRunner>>(
    const ModelSource& model, const ModelOptions& options, const Replacement* replacement)>;

}  // namespace canopy::server

#endif  // SERVER_RPC_MODEL_LOADER_H_
