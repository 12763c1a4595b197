// The function that loads models: LibTorch in the real program, fakes in tests.
#ifndef SERVER_RPC_MODEL_LOADER_H_
#define SERVER_RPC_MODEL_LOADER_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "core/engine/model_options.h"
#include "core/engine/model_runner.h"
#include "core/engine/replacement.h"

namespace canopy::server {

// Loads a model and prepares it for requests. `replacement` is null at the start. Otherwise the
// model replaces replacement->served and has the next version. Returns RESOURCE_EXHAUSTED if there
// is too little memory, DATA_LOSS for a bad checkpoint, and NOT_FOUND if the source does not exist.
using ModelLoader = std::function<absl::StatusOr<std::unique_ptr<ModelRunner>>(
    const ModelSource& model, const ModelOptions& options, const Replacement* replacement)>;

}  // namespace canopy::server

#endif  // SERVER_RPC_MODEL_LOADER_H_
