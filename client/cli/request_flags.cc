#include "client/cli/request_flags.h"

#include <initializer_list>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "client/enum_names.h"

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
  v1::DType vector_dtype = v1::DTYPE_FLOAT32;
  v1::Scope scope = v1::SCOPE_CANDIDATE;
};

absl::StatusOr<Enums> ReadEnums() {
  Enums enums;
  for (const absl::Status& status :
       {ReadEnum(FLAGS_backend, &enums.backend), ReadEnum(FLAGS_policy, &enums.policy),
        ReadEnum(FLAGS_packing, &enums.packing), ReadEnum(FLAGS_priority, &enums.priority),
        ReadEnum(FLAGS_vector_dtype, &enums.vector_dtype), ReadEnum(FLAGS_scope, &enums.scope)}) {
    if (!status.ok()) {
      return status;
    }
  }
  return enums;
}

void FillOutputs(const Enums& enums, v1::Outputs* outputs) {
  outputs->set_scores(absl::GetFlag(FLAGS_scores));
  outputs->set_probabilities(absl::GetFlag(FLAGS_probabilities));
  outputs->set_vectors(absl::GetFlag(FLAGS_vectors));
  outputs->set_vector_dtype(enums.vector_dtype);
  outputs->set_normalize(absl::GetFlag(FLAGS_normalize));
  outputs->set_token_logprobs(absl::GetFlag(FLAGS_token_logprobs));
  outputs->set_entropy(absl::GetFlag(FLAGS_entropy));
  outputs->set_vocab_range(absl::GetFlag(FLAGS_vocab_range));
  outputs->set_values(absl::GetFlag(FLAGS_values));
  outputs->set_top_logprobs(absl::GetFlag(FLAGS_top_logprobs));
  outputs->set_scope(enums.scope);
  if (const absl::optional<float> temperature = absl::GetFlag(FLAGS_temperature)) {
    outputs->set_temperature(*temperature);
  }
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
  FillOutputs(*enums, request->mutable_outputs());
  FillRouting(*enums, request->mutable_routing());
  return absl::OkStatus();
}

}  // namespace canopy::client
