#include "client/answer_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/enum_names.h"
#include "client/output_fields.h"
#include "client/tensor.h"
#include "client/unscored.h"
#include "nlohmann/json.hpp"

namespace canopy::client {
namespace {

// Keys keep the order in which they are written. Numbers of type float are printed in their
// shortest form: 0.1, not 0.10000000149011612.
using Json = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool, int64_t,
                                  uint64_t, float>;

std::string Dump(const Json& json) {
  return json.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/true,
                   Json::error_handler_t::replace);
}

template <typename List>
Json ListOf(const List& list) {
  Json json = Json::array();
  for (const auto& value : list) {
    json.push_back(value);
  }
  return json;
}

template <typename List>
void AddList(const char* key, const List& list, Json* json) {
  if (!list.empty()) {
    (*json)[key] = ListOf(list);
  }
}

template <typename Messages, typename Convert>
Json Converted(const Messages& messages, Convert convert) {
  Json json = Json::array();
  for (const auto& message : messages) {
    json.push_back(convert(message));
  }
  return json;
}

Json TopLogprobsJson(const v1::TopLogprobs& top) {
  return {{"ids", ListOf(top.ids())}, {"logprobs", ListOf(top.logprobs())}};
}

// Converts a field of a per-token output that `result` contains.
Json FieldJson(const v1::CandidateResult& result, const Field& field) {
  if (!field.is_repeated()) {
    return v1::CandidateResult::GetReflection()->GetFloat(result, &field);
  }
  if (IsFloat(field)) {
    return ListOf(FloatsOf(result, field));
  }
  return IsInteger(field) ? ListOf(IntegersOf(result, field))
                          : Converted(result.top_logprobs(), TopLogprobsJson);
}

// Returns whether any list begins at first_scored_token.
bool HasDistributions(const v1::CandidateResult& result) {
  return std::any_of(TokenLists().begin(), TokenLists().end(), [&result](const ResultField& list) {
    return list.start == ListStart::kFirstScored && Has(result, *list.field);
  });
}

Json CandidateJson(const v1::CandidateResult& result) {
  Json json = {{"id", result.id()}, {"tokens", result.tokens()}};
  if (result.has_score()) {
    json["score"] = result.score();
  }
  AddList("label_scores", result.label_scores(), &json);
  if (result.has_probability()) {
    json["probability"] = result.probability();
  }
  if (!result.unscored_reason().empty()) {
    json["unscored_reason"] = result.unscored_reason();
  }
  AddList("unscored_outputs", result.unscored_outputs(), &json);
  if (HasDistributions(result)) {
    json["first_scored_token"] = result.first_scored_token();
  }
  for (const ResultField& field : ResultFields()) {
    if (field.is_per_token && Has(result, *field.field)) {
      json[field.field->name()] = FieldJson(result, *field.field);
    }
  }
  return json;
}

Json QuestionJson(const v1::QuestionResult& result) {
  Json json = {{"id", result.id()}, {"candidates", Converted(result.candidates(), CandidateJson)}};
  if (result.has_boolean()) {
    json["boolean"] = {{"probability", result.boolean().probability()},
                       {"value", result.boolean().value()}};
  } else if (result.has_choice()) {
    const v1::ChoiceAnswer& choice = result.choice();
    json["choice"] = {{"index", choice.index()},
                      {"id", choice.id()},
                      {"probability", choice.probability()},
                      {"margin", choice.margin()}};
  } else if (result.has_score()) {
    json["score"] = {{"level", result.score().level()}, {"expected", result.score().expected()}};
  }
  AddList("distribution", result.distribution(), &json);
  return json;
}

Json VectorRows(const v1::ScoreResponse& response) {
  const v1::Tensor& vectors = response.vectors();
  Json rows = Json::array();
  for (const v1::QuestionResult& question : response.results()) {
    for (const v1::CandidateResult& candidate : question.candidates()) {
      const uint64_t offset = rows.size() * vectors.shape(1);
      Json row;
      for (uint64_t i = 0; !Lacks(candidate, "vectors") && i < vectors.shape(1); ++i) {
        row.push_back(ElementAt(vectors.data(), vectors.dtype(), offset + i));
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Json VectorsJson(const v1::ScoreResponse& response) {
  const v1::Tensor& vectors = response.vectors();
  Json json = {{"dtype", EnumName(vectors.dtype())}, {"shape", ListOf(vectors.shape())}};
  if (vectors.dtype() == v1::DTYPE_FLOAT32) {
    json["rows"] = VectorRows(response);
  } else {
    json["base64"] = absl::Base64Escape(vectors.data());
  }
  return json;
}

Json StatsJson(const v1::Stats& stats) {
  return {{"backend", EnumName(stats.backend())},
          {"policy", EnumName(stats.policy())},
          {"reason", stats.reason()},
          {"layout", stats.layout()},
          {"path_tokens", stats.path_tokens()},
          {"input_tokens", stats.input_tokens()},
          {"unique_tokens", stats.unique_tokens()},
          {"forest_tokens", stats.forest_tokens()},
          {"computed_tokens", stats.computed_tokens()},
          {"cached_tokens", stats.cached_tokens()},
          {"mask_bytes", stats.mask_bytes()},
          {"segment_groups", stats.segment_groups()},
          {"parts", stats.parts()},
          {"batch_requests", stats.batch_requests()},
          {"decode_ms", stats.decode_ms()},
          {"queue_ms", stats.queue_ms()},
          {"plan_ms", stats.plan_ms()},
          {"device_ms", stats.device_ms()},
          {"encode_queue_ms", stats.encode_queue_ms()},
          {"encode_ms", stats.encode_ms()},
          {"total_ms", stats.total_ms()}};
}

Json WorkJson(const v1::PlannedWork& work) {
  return {{"outputs", ListOf(work.outputs())},     {"computed_tokens", work.computed_tokens()},
          {"endpoint_rows", work.endpoint_rows()}, {"distribution_rows", work.distribution_rows()},
          {"value_rows", work.value_rows()},       {"answer_bytes", work.answer_bytes()}};
}

Json ForecastJson(const v1::RouteForecast& forecast) {
  return {{"backend", EnumName(forecast.backend())},
          {"predicted_ms", forecast.predicted_ms()},
          {"forwards", forecast.forwards()},
          {"computed_tokens", forecast.computed_tokens()}};
}

Json NodeJson(const v1::TreeNode& node) {
  return {{"parent", node.parent()},
          {"start_depth", node.start_depth()},
          {"tokens", ListOf(node.tokens())},
          {"candidates", ListOf(node.candidates())}};
}

Json TreeJson(const v1::QuestionTree& tree) {
  return {{"id", tree.id()}, {"nodes", Converted(tree.nodes(), NodeJson)}};
}

Json ModelJson(const v1::Model& model) {
  Json limits = Json::object();
  // A protobuf map has no defined order, so the entries are sorted.
  for (const auto& [name, value] :
       std::map<std::string, uint64_t>(model.limits().begin(), model.limits().end())) {
    limits[name] = value;
  }
  Json json = {{"name", model.name()},
               {"version", model.version()},
               {"fingerprint", model.fingerprint()},
               {"architecture", model.architecture()},
               {"parameters", model.parameters()},
               {"hidden_size", model.hidden_size()},
               {"vocab_size", model.vocab_size()},
               {"max_path_tokens", model.max_path_tokens()},
               {"num_labels", model.num_labels()},
               {"heads", ListOf(model.heads())},
               {"dtype", model.dtype()},
               {"device", model.device()},
               {"support", model.support()},
               {"support_reason", model.support_reason()},
               {"default_policy", EnumName(model.default_policy())},
               {"policy_reason", model.policy_reason()},
               {"limits", limits},
               {"vocabulary_hash", model.vocabulary_hash()},
               {"build", model.build()},
               {"pooling", model.pooling()},
               {"folder_normalizes", model.folder_normalizes()},
               {"token_forms", ListOf(model.token_forms())}};
  if (model.has_pad_token()) {
    json["pad_token"] = model.pad_token();
  }
  return json;
}

}  // namespace

std::string ScoreResponseToJson(const v1::ScoreResponse& response) {
  Json json = {{"request_id", response.request_id()},
               {"model", response.model()},
               {"model_version", response.model_version()},
               {"model_fingerprint", response.model_fingerprint()},
               {"results", Converted(response.results(), QuestionJson)}};
  if (response.has_vectors()) {
    json["vectors"] = VectorsJson(response);
  }
  json["stats"] = StatsJson(response.stats());
  return Dump(json);
}

std::string ExplainResponseToJson(const v1::ExplainResponse& response) {
  return Dump({{"stats", StatsJson(response.stats())},
               {"work", WorkJson(response.work())},
               {"forecasts", Converted(response.forecasts(), ForecastJson)},
               {"questions", Converted(response.questions(), TreeJson)}});
}

std::string ModelsToJson(const v1::ListModelsResponse& response) {
  return Dump({{"models", Converted(response.models(), ModelJson)}});
}

}  // namespace canopy::client
