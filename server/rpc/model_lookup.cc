#include "server/rpc/model_lookup.h"

#include <string>
#include <vector>

#include "server/wire/grpc_status.h"

namespace canopy::server {

absl::StatusOr<std::shared_ptr<const ModelInfo>> FindLoadedModel(const Engine& engine,
                                                                 absl::string_view name) {
  std::shared_ptr<const ModelInfo> model = engine.FindModel(name);
  if (model == nullptr) {
    std::vector<std::string> loaded;
    for (const auto& info : engine.models()) {
      loaded.push_back(info->name);
    }
    return UnknownModelError(name, loaded);
  }
  return model;
}

}  // namespace canopy::server
