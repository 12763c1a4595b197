#include "server/run_server.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "base/whole_file.h"
#include "server/net/connection_acceptor.h"
#include "server/server_options.h"
#include "server/shutdown_signals.h"
#include "server/telemetry/grpc_log.h"

namespace canopy::server {
namespace {

constexpr absl::Duration kHealthCheckInterval = absl::Milliseconds(250);
// The time for calls in progress after the device was lost; they fail by themselves.
constexpr absl::Duration kUnhealthyDrainTimeout = absl::Seconds(1);
// The time for closing connections and ending threads after the last call.
constexpr absl::Duration kStopTimeout = absl::Seconds(3);

int StartFailed(const absl::Status& status) {
  std::fprintf(stderr, "canopy_server: %s\n", std::string(status.message()).c_str());
  return kStartFailedExitCode;
}

absl::Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string port = address.substr(address.rfind(':') + 1) + "\n";
  if (const absl::Status written = WriteWholeFile(path, port); !written.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--port_file: ", written.message()));
  }
  return absl::OkStatus();
}

int CheckConfig(const ModelLoader& loader, ServerOptions options) {
  if (const auto engine = LoadEngine(loader, &options, nullptr); !engine.ok()) {
    return StartFailed(engine.status());
  }
  std::printf("configuration ok\n");
  return EXIT_SUCCESS;
}

absl::Status Start(const ServerOptions& options, const ModelLoader& loader,
                   std::unique_ptr<Server>* server) {
  CANOPY_ASSIGN_OR_RETURN(*server, Server::Create(options));
  CANOPY_RETURN_IF_ERROR((*server)->LoadModels(loader));
  if (!options.port_file.empty()) {
    CANOPY_RETURN_IF_ERROR(WritePortFile(options.port_file, (*server)->address()));
  }
  return absl::OkStatus();
}

// Ends the process after `timeout`. A forward cannot be interrupted, and a hanging device would
// block the process for good.
void ExitAfter(absl::Duration timeout) {
  std::thread([timeout] {
    absl::SleepFor(timeout);
    LogError("stop_timeout", {{"seconds", absl::ToDoubleSeconds(timeout)}});
    _exit(EXIT_FAILURE);
  }).detach();
}

int ServeUntilSignal(const ServerOptions& options, ShutdownSignals* signals, Server* server) {
  server->Serve();
  std::printf("listening on %s\n", server->address().c_str());
  std::fflush(stdout);
  bool healthy = true;
  while (healthy && !signals->Wait(kHealthCheckInterval)) {
    healthy = server->CheckHealth();
  }
  const absl::Duration timeout = healthy ? options.drain_timeout : kUnhealthyDrainTimeout;
  LogInfo("draining", {{"seconds", absl::ToDoubleSeconds(timeout)}});
  ExitAfter(timeout + kStopTimeout);
  const bool finished = server->Drain(timeout);
  LogInfo("stopped", {{"calls_finished", finished}, {"healthy", healthy}});
  return finished && healthy ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int RunServer(const std::vector<std::string>& arguments, const ModelLoader& loader) {
  DisableDeadlockDetection();
  const absl::StatusOr<ServerOptions> options = ParseServerOptions(arguments);
  if (!options.ok()) {
    return StartFailed(options.status());
  }
  switch (options->action) {
    case ServerOptions::Action::kHelp:
      std::printf("%s", ServerHelp().c_str());
      return EXIT_SUCCESS;
    case ServerOptions::Action::kVersion:
      std::printf("canopy_server %s\n", kVersion);
      return EXIT_SUCCESS;
    case ServerOptions::Action::kCheckConfig:
      SetLogOptions(options->log);
      return CheckConfig(loader, *options);
    case ServerOptions::Action::kServe:
      break;
  }
  SetLogOptions(options->log);
  RaiseDescriptorLimit();
  InstallGrpcLog();
  // The object is never destroyed, because its thread waits for signals until the process ends.
  auto* signals = new ShutdownSignals();
  std::unique_ptr<Server> server;
  if (const absl::Status started = Start(*options, loader, &server); !started.ok()) {
    return StartFailed(started);
  }
  signals->Arm();
  return ServeUntilSignal(*options, signals, server.get());
}

}  // namespace canopy::server
