// Parses addresses of the form HOST:PORT, as used in flags.
#ifndef BASE_ADDRESS_H_
#define BASE_ADDRESS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy {

struct Address {
  std::string host;  // without brackets
  int port = 0;      // 0 = any free port
};

// Splits HOST:PORT or [IPV6]:PORT. Returns nullopt for any other text.
std::optional<Address> SplitAddress(absl::string_view address);

// Returns true if HOST:PORT can be reached only from this machine.
bool IsLoopbackAddress(absl::string_view address);

// Returns HOST:PORT with another port.
std::string WithPort(absl::string_view address, int port);

}  // namespace canopy

#endif  // BASE_ADDRESS_H_
