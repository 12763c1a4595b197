// Short names of the contract's enum values (`segmented` for BACKEND_SEGMENTED), for flags, JSON
// and tables.
#ifndef CLIENT_ENUM_NAMES_H_
#define CLIENT_ENUM_NAMES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace canopy::client {

// Returns the short name of the value `number`; the number itself if the value is unknown, as from
// a newer server.
std::string EnumName(const google::protobuf::EnumDescriptor& descriptor, int number);

// Returns the number of the value with this short name, or INVALID_ARGUMENT with all names.
absl::StatusOr<int> EnumNumber(const google::protobuf::EnumDescriptor& descriptor,
                               absl::string_view name);

// Returns all short names, such as `auto|dense|segmented`.
std::string EnumChoices(const google::protobuf::EnumDescriptor& descriptor);

template <typename Enum>
std::string EnumName(Enum value) {
  return EnumName(*google::protobuf::GetEnumDescriptor<Enum>(), static_cast<int>(value));
}

template <typename Enum>
absl::StatusOr<Enum> ParseEnum(absl::string_view name) {
  const absl::StatusOr<int> number = EnumNumber(*google::protobuf::GetEnumDescriptor<Enum>(), name);
  if (!number.ok()) {
    return number.status();
  }
  return static_cast<Enum>(*number);
}

}  // namespace canopy::client

#endif  // CLIENT_ENUM_NAMES_H_
