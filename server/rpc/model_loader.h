// Where models come from: LibTorch in the real program, fakes in tests.
#ifndef SERVER_RPC_MODEL_LOADER_H_
#define SERVER_RPC_MODEL_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/model_runner.h"
#include "core/engine/replacement.h"
#include "server/server_options.h"

namespace canopy::server {

struct ModelLoader {
  // Loads a model and makes it ready. `replacement` is null at the start; otherwise the model is to
  // take the place of replacement->served, and has the version after its. RESOURCE_EXHAUSTED where
  // memory is short, DATA_LOSS for a bad checkpoint, NOT_FOUND for what is not there.
  std::function<absl::StatusOr<std::unique_ptr<ModelRunner>>(
      const ModelSource& model, const ServerOptions& options, const Replacement* replacement)>
      load;
  // The token budget of a forward that --max_batch_tokens=0 stands for on a device.
  std::function<int64_t(absl::string_view device)> default_batch_tokens;
};

}  // namespace canopy::server

#endif  // SERVER_RPC_MODEL_LOADER_H_
