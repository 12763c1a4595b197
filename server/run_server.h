// The program canopy_server, without the code that loads models.
#ifndef SERVER_RUN_SERVER_H_
#define SERVER_RUN_SERVER_H_

#include <string>
#include <vector>

#include "server/server.h"

namespace canopy::server {

// The exit code after a failed start.
inline constexpr int kStartFailedExitCode = 2;

// Runs the server until a signal has drained it, and returns the exit code: 0 after a clean
// shutdown, 1 if calls were cancelled or the device was lost, and 2 if the start failed, after one
// line on stderr with the reason.
int RunServer(const std::vector<std::string>& arguments, const ModelLoader& loader);

}  // namespace canopy::server

#endif  // SERVER_RUN_SERVER_H_
