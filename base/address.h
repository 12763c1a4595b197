// HOST:PORT as flags name it.
#ifndef BASE_ADDRESS_H_
#define BASE_ADDRESS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace canopy {

struct Address {
  std::string host;  // without brackets
  int port = 0;      // 0 = any free one
};

// Parts of HOST:PORT or [IPV6]:PORT; nothing when it is neither.
std::optional<Address> SplitAddress(absl::string_view address);

// Whether HOST:PORT can be reached from this machine only.
bool IsLoopbackAddress(absl::string_view address);

// HOST:PORT with another port.
std::string WithPort(absl::string_view address, int port);

}  // namespace canopy

#endif  // BASE_ADDRESS_H_
