#include "core/checkpoint/config_reader.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/strict_json.h"

namespace canopy {

using nlohmann::json;

ConfigReader::ConfigReader(const json& object, absl::string_view name)
    : object_(object), prefix_(name.empty() ? "" : absl::StrCat(name, ".")) {}

const json* ConfigReader::Find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

absl::Status ConfigReader::ReadInteger(const char* key, int64_t max, int64_t* target) const {
  return Find(key) == nullptr ? Missing(key) : ReadOptionalInteger(key, max, target);
}

absl::Status ConfigReader::ReadNumber(const char* key, double max, double* target) const {
  return Find(key) == nullptr ? Missing(key) : ReadOptionalNumber(key, max, target);
}

absl::Status ConfigReader::ReadOptionalInteger(const char* key, int64_t max,
                                               int64_t* target) const {
  const json* value = Find(key);
  if (value == nullptr) {
    return absl::OkStatus();
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() == 0 ||
      value->get<uint64_t>() > static_cast<uint64_t>(max)) {
    return Refuse(key, *value, absl::StrCat("an integer from 1 to ", max));
  }
  *target = value->get<int64_t>();
  return absl::OkStatus();
}

absl::Status ConfigReader::ReadOptionalNumber(const char* key, double max, double* target) const {
  const json* value = Find(key);
  if (value == nullptr) {
    return absl::OkStatus();
  }
  if (!value->is_number() || !(value->get<double>() > 0.0) || value->get<double>() > max) {
    return Refuse(key, *value, absl::StrCat("a number above 0 and up to ", max));
  }
  *target = value->get<double>();
  return absl::OkStatus();
}

absl::Status ConfigReader::ReadOptionalBool(const char* key, bool* target) const {
  if (const json* value = Find(key); value != nullptr) {
    if (!value->is_boolean()) {
      return Refuse(key, *value, "true or false");
    }
    *target = value->get<bool>();
  }
  return absl::OkStatus();
}

absl::Status ConfigReader::CheckAbsentOr(const char* key, const json& only) const {
  const json* value = Find(key);
  if (value == nullptr || *value == only) {
    return absl::OkStatus();
  }
  return Refuse(key, *value, DescribeJson(only));
}

absl::Status ConfigReader::Missing(absl::string_view key) const {
  return absl::InvalidArgumentError(absl::StrCat(Path(key), " is missing"));
}

absl::Status ConfigReader::Refuse(absl::string_view key, const json& value,
                                  absl::string_view expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat(Path(key), ": ", DescribeJson(value), " is not supported; expected ", expected));
}

std::string ConfigReader::Path(absl::string_view key) const { return absl::StrCat(prefix_, key); }

}  // namespace canopy
