#include "server/rpc/reflection_guard.h"

#include <algorithm>
#include <vector>

#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/support/channel_arguments.h"

namespace canopy::server {
namespace {

// The name of gRPC's reflection plug-in.
constexpr char kReflectionPlugin[] = "proto_server_reflection";

class ReflectionRemover final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}

  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->erase(
        std::remove_if(plugins->begin(), plugins->end(),
                       [](const auto& plugin) { return plugin->name() == kReflectionPlugin; }),
        plugins->end());
  }
};

}  // namespace

std::unique_ptr<grpc::ServerBuilderOption> WithoutReflection() {
  return std::make_unique<ReflectionRemover>();
}

}  // namespace canopy::server
