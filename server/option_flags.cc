#include "server/option_flags.h"

#include "base/address.h"

namespace canopy::server {

absl::Status FlagError(absl::string_view flag, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": '", value, "' is not ", wanted));
}

absl::Status CheckRange(absl::string_view flag, int64_t value, FlagRange range) {
  if (value < range.low || value > range.high) {
    return FlagError(flag, absl::StrCat(value), absl::StrCat("in ", range.low, " .. ", range.high));
  }
  return absl::OkStatus();
}

OptionFlag TextFlag(std::string name, std::string* field, std::string help) {
  OptionFlag flag{std::move(name), std::move(help), *field};
  flag.set = [field](absl::string_view text) {
    *field = std::string(text);
    return true;
  };
  return flag;
}

OptionFlag AddressFlag(const std::string& name, std::string* field, std::string help) {
  return Checked(TextFlag(name, field, std::move(help)), [name, field] {
    return field->empty() || SplitAddress(*field).has_value()
               ? absl::OkStatus()
               : FlagError(name, *field, "HOST:PORT");
  });
}

OptionFlag SwitchFlag(std::string name, bool* field, std::string help) {
  OptionFlag flag{std::move(name), std::move(help), absl::UnparseFlag(*field),
                  /*is_switch=*/true};
  flag.set = [field](absl::string_view text) {
    std::string ignored;
    return absl::ParseFlag(text, field, &ignored);
  };
  return flag;
}

OptionFlag RepeatedFlag(std::string name, std::vector<std::string>* field, std::string help) {
  OptionFlag flag{std::move(name), std::move(help), absl::StrJoin(*field, ",")};
  flag.set = [field](absl::string_view text) {
    if (!text.empty()) {
      field->emplace_back(text);
    }
    return true;
  };
  return flag;
}

OptionFlag Checked(OptionFlag flag, std::function<absl::Status()> check) {
  if (flag.check == nullptr) {
    flag.check = std::move(check);
    return flag;
  }
  flag.check = [first = std::move(flag.check), then = std::move(check)] {
    const absl::Status status = first();
    return status.ok() ? then() : status;
  };
  return flag;
}

OptionFlag Limit(OptionFlag flag) {
  flag.is_limit = true;
  return flag;
}

}  // namespace canopy::server
