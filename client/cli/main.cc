#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/cli/run_cli.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const bool out_is_terminal = isatty(STDOUT_FILENO) == 1;
  const bool in_is_terminal = isatty(STDIN_FILENO) == 1;
  return canopy::client::RunCli(arguments,
                                {std::cin, std::cout, std::cerr, out_is_terminal, in_is_terminal});
}
