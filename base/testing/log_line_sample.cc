// Prints one JSON log line for each line of standard input. An input line has the hex digits of the
// bytes of the log line's only field.
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/strings/escaping.h"
#include "base/logging.h"

int main() {
  for (std::string hex; std::getline(std::cin, hex);) {
    const std::string line = canopy::FormatLogLine(canopy::LogFormat::kJson, "INFO", "sample",
                                                   {{"value", absl::HexStringToBytes(hex)}});
    std::puts(line.c_str());
  }
  return 0;
}
