#include "client/enum_names.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace canopy::client {
namespace {

// The names of the contract's values contain no further underscore: BACKEND_DENSE,
// QUESTION_KIND_SCORE.
std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  return absl::AsciiStrToLower(value.name().substr(value.name().rfind('_') + 1));
}

}  // namespace

std::string EnumName(const google::protobuf::EnumDescriptor& descriptor, int number) {
  const google::protobuf::EnumValueDescriptor* value = descriptor.FindValueByNumber(number);
  return value == nullptr ? absl::StrCat(number) : ShortName(*value);
}

absl::StatusOr<int> EnumNumber(const google::protobuf::EnumDescriptor& descriptor,
                               absl::string_view name) {
  for (int i = 0; i < descriptor.value_count(); ++i) {
    if (ShortName(*descriptor.value(i)) == name) {
      return descriptor.value(i)->number();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not one of ", EnumChoices(descriptor)));
}

std::string EnumChoices(const google::protobuf::EnumDescriptor& descriptor) {
  std::vector<std::string> names;
  names.reserve(descriptor.value_count());
  for (int i = 0; i < descriptor.value_count(); ++i) {
    names.push_back(ShortName(*descriptor.value(i)));
  }
  return absl::StrJoin(names, "|");
}

}  // namespace canopy::client
