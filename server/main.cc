// The program canopy_server with models on LibTorch.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "base/version.h"
#include "core/runtime/torch_runner.h"
#include "server/run_server.h"

namespace canopy::server {
namespace {

// Ends the process with one line if the working folder was deleted. LibTorch's libraries look for
// that folder while they are loaded, before main, and would end the process with a line of their
// own.
void RequireWorkingFolder() {
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) != nullptr || errno != ENOENT) {
    return;
  }
  constexpr char kText[] =
      "canopy_server: the working folder was deleted or moved; start the server in a folder that "
      "exists\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof kText - 1));
  _exit(kStartFailedExitCode);
}

// The functions in this section run before the initializers of shared libraries.
__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeLibraries)() = RequireWorkingFolder;

absl::StatusOr<std::unique_ptr<ModelRunner>> LoadModel(const ModelSource& model,
                                                       const ModelOptions& options,
                                                       const Replacement* replacement) {
  TorchRunnerOptions runner;
  runner.source = model;
  runner.model = options;
  runner.prepare_routes = true;
  runner.build = kVersion;
  if (replacement != nullptr) {
    runner.replacement = *replacement;
  }
  return LoadTorchRunner(runner);
}

}  // namespace
}  // namespace canopy::server

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return canopy::server::RunServer(arguments, canopy::server::LoadModel);
}
