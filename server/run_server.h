// The program canopy_server, apart from where its models come from.
#ifndef SERVER_RUN_SERVER_H_
#define SERVER_RUN_SERVER_H_

#include <string>
#include <vector>

#include "server/server.h"

namespace canopy::server {

// The exit code of a start that failed.
inline constexpr int kStartFailedExitCode = 2;

// Runs until a signal has drained the server, and returns the exit code: 0 after a clean shutdown;
// 1 when calls had to be cancelled or the device was lost; 2 when the start failed, after one line
// on stderr that says why.
int RunServer(const std::vector<std::string>& arguments, const ModelLoader& loader);

}  // namespace canopy::server

#endif  // SERVER_RUN_SERVER_H_
