#include "server/wire/request_validator.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_details.h"
#include "base/status_macros.h"
#include "canopy/v1/types.pb.h"
#include "server/wire/grpc_status.h"
#include "server/wire/output_checks.h"
#include "server/wire/routing_message.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

constexpr uint32_t kMaxTopLogprobs = 128;
// With a smaller temperature, the smallest differences of logits overflow float32 after the
// division.
constexpr float kMinTemperature = 1e-30F;
constexpr float kMaxTemperature = 100;

absl::Status CheckCounts(const RequestCounts& counts, const RequestLimits& limits) {
  Violations violations;
  const auto check = [&violations](std::string field, int64_t value, absl::string_view what,
                                   absl::string_view limit_name, int64_t limit) {
    if (value > limit) {
      violations.Add(std::move(field),
                     absl::StrCat(value, " ", what, " exceed ", limit_name, " ", limit));
    }
  };
  if (counts.questions == 0) {
    violations.Add("questions", "a request needs at least one question");
  }
  check("questions", counts.questions, "questions", "max_questions", limits.max_questions);
  check(absl::StrCat("questions[", counts.max_candidates_question, "].candidates"),
        counts.max_candidates, "candidates", "max_candidates", limits.max_candidates);
  check("questions", counts.paths, "paths", "max_paths", limits.max_paths);
  check("questions", counts.tokens, "tokens", "max_tokens", limits.max_tokens);
  return violations.ToStatus();
}

void CheckEnum(std::string field, int32_t value, bool known, Violations* violations) {
  if (!known) {
    violations->Add(std::move(field), absl::StrCat("unknown value ", value));
  }
}

void CheckOutputs(const OutputsFields& outputs, Violations* violations) {
  CheckEnum("outputs.vector_dtype", outputs.vector_dtype, v1::DType_IsValid(outputs.vector_dtype),
            violations);
  if (outputs.amount(Output::kTopLogprobs) > kMaxTopLogprobs) {
    violations->Add("outputs.top_logprobs", absl::StrCat(outputs.amount(Output::kTopLogprobs),
                                                         " exceeds the limit ", kMaxTopLogprobs));
  }
  CheckEnum("outputs.scope", outputs.scope, v1::Scope_IsValid(outputs.scope), violations);
  // The condition is written so that NaN fails.
  if (outputs.temperature.has_value() &&
      !(*outputs.temperature >= kMinTemperature && *outputs.temperature <= kMaxTemperature)) {
    violations->Add("outputs.temperature",
                    absl::StrCat(*outputs.temperature, " is not at least ", kMinTemperature,
                                 " and at most ", kMaxTemperature));
  }
  if (outputs.unknown_field != 0) {
    violations->Add("outputs", absl::StrCat("unknown field ", outputs.unknown_field));
  }
}

void CheckRouting(const RoutingFields& routing, int64_t max_mask_bytes, Violations* violations) {
  CheckEnum("routing.backend", routing.backend, v1::Backend_IsValid(routing.backend), violations);
  CheckEnum("routing.policy", routing.policy, v1::Policy_IsValid(routing.policy), violations);
  if (routing.max_mask_bytes.has_value() && *routing.max_mask_bytes < 0) {
    violations->Add("routing.max_mask_bytes",
                    absl::StrCat(*routing.max_mask_bytes, " is negative"));
  } else if (routing.max_mask_bytes.value_or(0) > max_mask_bytes) {
    violations->Add(
        "routing.max_mask_bytes",
        absl::StrCat(*routing.max_mask_bytes, " bytes exceed max_mask_bytes ", max_mask_bytes));
  }
  CheckEnum("routing.packing", routing.packing, v1::Packing_IsValid(routing.packing), violations);
  if (routing.unknown_field != 0) {
    violations->Add("routing", absl::StrCat("unknown field ", routing.unknown_field));
  }
}

VectorType ToVectorType(int32_t dtype) {
  switch (dtype) {
    case v1::DTYPE_BFLOAT16:
      return VectorType::kBFloat16;
    case v1::DTYPE_FLOAT16:
      return VectorType::kFloat16;
    default:
      return VectorType::kFloat32;
  }
}

OutputSelection SelectOutputs(const OutputsFields& outputs, const ModelInfo& model) {
  OutputSelection selection;
  selection.vector_type = ToVectorType(outputs.vector_dtype);
  selection.normalize = outputs.normalize;
  selection.scope = outputs.scope == v1::SCOPE_PATH ? TokenScope::kPath : TokenScope::kCandidate;
  selection.temperature = outputs.temperature.value_or(1);
  for (const OutputSpec& spec : kOutputs) {
    if (outputs.asks(spec.output)) {
      // A smaller vocabulary has fewer tokens to list. It has at least one, because the request
      // contains a valid token.
      Ask(spec.computed,
          static_cast<int32_t>(std::min<int64_t>(outputs.amount(spec.output), model.vocab_size)),
          &selection);
    }
  }
  if (AskedOutputs(selection) == 0) {
    selection.scores = model.num_labels > 0;
    selection.vectors = model.num_labels == 0;
  }
  return selection;
}

std::string WireName(Backend backend) { return v1::Backend_Name(ToWire(backend)); }

absl::Status CheckBackend(const RoutingFields& routing, const ModelInfo& model) {
  const Backend backend = BackendFromWire(routing.backend);
  const BackendSupport support = model.backend_support();
  if (backend != Backend::kAuto && !CanRun(backend, support)) {
    return ErrorFor(ErrorReason::kBackendUnavailable,
                    absl::StrCat("routing.backend: this server cannot run ", WireName(backend),
                                 " on model ", model.name,
                                 backend == Backend::kFused && !model.fused_reason.empty()
                                     ? absl::StrCat(" (", model.fused_reason, ")")
                                     : "",
                                 "; it has: ", ListBackends(support, WireName)));
  }
  if (routing.policy == v1::POLICY_MEASURED && model.route_costs == nullptr) {
    return ErrorFor(
        ErrorReason::kPolicyUnavailable,
        "routing.policy: this server cannot run POLICY_MEASURED; it has: POLICY_REFERENCE");
  }
  return absl::OkStatus();
}

absl::Status CheckVersions(const RequestHead& head, const ModelInfo& model) {
  if (head.min_model_version > static_cast<uint64_t>(model.version)) {
    return ErrorFor(
        ErrorReason::kModelVersionUnavailable,
        absl::StrCat("min_model_version: ", head.min_model_version, " of model ", model.name,
                     " is not loaded; the loaded version is ", model.version));
  }
  if (!head.vocabulary_hash.empty() && head.vocabulary_hash != model.vocabulary_hash) {
    return ErrorFor(
        ErrorReason::kVocabularyMismatch,
        absl::StrCat("vocabulary_hash: ", QuotedForError(head.vocabulary_hash),
                     " differs from model ", model.name, "'s, ",
                     model.vocabulary_hash.empty() ? "which has none" : model.vocabulary_hash));
  }
  return absl::OkStatus();
}

RouteRequest ToRouteRequest(const RoutingFields& routing) {
  RouteRequest request;
  request.backend = BackendFromWire(routing.backend);
  request.packing = PackingFromWire(routing.packing);
  request.policy = PolicyFromWire(routing.policy);
  request.max_mask_bytes = routing.max_mask_bytes;
  return request;
}

}  // namespace

absl::StatusOr<PreparedRequest> PrepareRequest(absl::string_view message,
                                               const RequestLimits& limits, ModelLookup find_model,
                                               RequestNotes* notes) {
  PreparedRequest request;
  CANOPY_ASSIGN_OR_RETURN(request.head, ReadRequestHead(message));
  const RequestHead& head = request.head;
  CANOPY_RETURN_IF_ERROR(CheckCounts(head.counts, limits));
  CANOPY_ASSIGN_OR_RETURN(request.model, find_model(head.model));
  const ModelInfo& model = *request.model;

  Violations violations;
  CANOPY_ASSIGN_OR_RETURN(request.questions,
                          DecodeQuestions(message, head.counts,
                                          {model.vocab_size, model.max_path_tokens}, &violations));
  if (notes != nullptr) {
    notes->suspicious_raw = std::move(request.questions.suspicious_raw);
  }
  CheckOutputs(head.outputs, &violations);
  CheckRouting(head.routing, limits.max_mask_bytes, &violations);
  CheckEnum("priority", head.priority, v1::Priority_IsValid(head.priority), &violations);
  CANOPY_RETURN_IF_ERROR(violations.ToStatus());

  request.job.outputs = SelectOutputs(head.outputs, model);
  CANOPY_RETURN_IF_ERROR(CheckHeads(head.outputs, model));
  CANOPY_RETURN_IF_ERROR(CheckAnswerSize(request.job.outputs, model, request.questions.batch));
  CANOPY_RETURN_IF_ERROR(CheckVersions(head, model));
  CANOPY_RETURN_IF_ERROR(CheckBackend(head.routing, model));

  request.job.model = model.name;
  request.job.priority = head.priority == v1::PRIORITY_LOW ? Priority::kLow : Priority::kNormal;
  request.job.routing = ToRouteRequest(head.routing);
  request.job.batch = std::make_shared<const PathBatch>(std::move(request.questions.batch));
  return request;
}

}  // namespace canopy::server
