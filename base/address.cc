#include "base/address.h"

#include <cstdint>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace canopy {

std::optional<Address> SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65'535) {
    return std::nullopt;
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) {
      return std::nullopt;
    }
  } else if (absl::StrContains(host, ':')) {
    return std::nullopt;
  }
  return Address{std::string(host), port};
}

bool IsLoopbackAddress(absl::string_view address) {
  const auto parts = SplitAddress(address);
  if (!parts.has_value()) {
    return false;
  }
  if (parts->host == "localhost" || parts->host == "::1") {
    return true;
  }
  // This accepts 127.0.0.0/8 in its usual notation. "127.example.com" is a host name.
  const std::vector<std::string> numbers = absl::StrSplit(parts->host, '.');
  return numbers.size() == 4 && numbers[0] == "127" &&
         absl::c_all_of(numbers, [](const std::string& text) {
           uint32_t number = 0;
           return absl::SimpleAtoi(text, &number) && number <= 255;
         });
}

std::string WithPort(absl::string_view address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

}  // namespace canopy
