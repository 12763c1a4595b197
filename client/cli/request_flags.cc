#include "client/cli/request_flags.h"

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "client/enum_names.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace canopy::client {
namespace {

template <typename Enum>
absl::Status ReadEnum(const absl::Flag<std::string>& flag, Enum* target) {
  const absl::StatusOr<Enum> value = ParseEnum<Enum>(absl::GetFlag(flag));
  if (!value.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--", absl::GetFlagReflectionHandle(flag).Name(),
                                                   ": ", value.status().message()));
  }
  *target = *value;
  return absl::OkStatus();
}

struct Enums {
  v1::Backend backend = v1::BACKEND_AUTO;
  v1::Policy policy = v1::POLICY_DEFAULT;
  v1::Packing packing = v1::PACKING_AUTO;
  v1::Priority priority = v1::PRIORITY_NORMAL;
};

absl::StatusOr<Enums> ReadEnums() {
  Enums enums;
  for (const absl::Status& status :
       {ReadEnum(FLAGS_backend, &enums.backend), ReadEnum(FLAGS_policy, &enums.policy),
        ReadEnum(FLAGS_packing, &enums.packing), ReadEnum(FLAGS_priority, &enums.priority)}) {
    if (!status.ok()) {
      return status;
    }
  }
  return enums;
}

// Sets a field of Outputs from the flag with the same name.
absl::Status FillOutput(const google::protobuf::FieldDescriptor& field, v1::Outputs* outputs) {
  using Field = google::protobuf::FieldDescriptor;
  const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(field.name());
  if (flag == nullptr) {
    return absl::InternalError(absl::StrCat("no flag --", field.name()));
  }
  const google::protobuf::Reflection& reflection = *v1::Outputs::GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      reflection.SetBool(outputs, &field, flag->TryGet<bool>().value());
      return absl::OkStatus();
    case Field::CPPTYPE_UINT32:
      reflection.SetUInt32(outputs, &field, flag->TryGet<uint32_t>().value());
      return absl::OkStatus();
    case Field::CPPTYPE_ENUM: {
      const absl::StatusOr<int> value =
          EnumNumber(*field.enum_type(), flag->TryGet<std::string>().value());
      if (!value.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", field.name(), ": ", value.status().message()));
      }
      reflection.SetEnumValue(outputs, &field, *value);
      return absl::OkStatus();
    }
    case Field::CPPTYPE_FLOAT:
      if (const auto value = flag->TryGet<absl::optional<float>>().value()) {
        reflection.SetFloat(outputs, &field, *value);
      }
      return absl::OkStatus();
    default:
      return absl::InternalError(absl::StrCat("--", field.name(), " has an unknown type"));
  }
}

absl::Status FillOutputs(v1::Outputs* outputs) {
  const google::protobuf::Descriptor& fields = *v1::Outputs::descriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    if (absl::Status status = FillOutput(*fields.field(i), outputs); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

void FillRouting(const Enums& enums, v1::Routing* routing) {
  routing->set_backend(enums.backend);
  routing->set_policy(enums.policy);
  routing->set_packing(enums.packing);
  if (const absl::optional<int64_t> max_mask_bytes = absl::GetFlag(FLAGS_max_mask_bytes)) {
    routing->set_max_mask_bytes(*max_mask_bytes);
  }
}

}  // namespace

std::string TargetFromFlags(absl::string_view command) {
  return absl::GetFlag(command == "load_weights" ? FLAGS_admin : FLAGS_server);
}

ClientOptions OptionsFromFlags(absl::string_view command) {
  ClientOptions options;
  options.target = TargetFromFlags(command);
  options.deadline = absl::GetFlag(FLAGS_deadline);
  options.max_request_bytes = absl::GetFlag(FLAGS_max_request_bytes);
  return options;
}

absl::Status FillFromFlags(v1::ScoreRequest* request) {
  const absl::StatusOr<Enums> enums = ReadEnums();
  if (!enums.ok()) {
    return enums.status();
  }
  request->set_request_id(absl::GetFlag(FLAGS_request_id));
  request->set_model(absl::GetFlag(FLAGS_model));
  request->set_min_model_version(absl::GetFlag(FLAGS_min_model_version));
  request->set_vocabulary_hash(absl::GetFlag(FLAGS_vocabulary_hash));
  request->set_priority(enums->priority);
  FillRouting(*enums, request->mutable_routing());
  return FillOutputs(request->mutable_outputs());
}

}  // namespace canopy::client
