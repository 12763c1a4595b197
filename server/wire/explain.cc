#include "server/wire/explain.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "core/tree/plan_picture.h"
#include "core/tree/tree_plan.h"
#include "server/wire/planned_work.h"
#include "server/wire/response_encoder.h"
#include "server/wire/routing_message.h"
#include "server/wire/violations.h"
#include "server/wire/wire_reader.h"

namespace canopy::server {
namespace {

using Fields = v1::ExplainRequest;

absl::Status Refuse(std::string field, std::string description) {
  Violations violations;
  violations.Add(std::move(field), std::move(description));
  return violations.ToStatus();
}

void FillTree(const PathBatch& batch, const Trie& trie, int32_t question, v1::QuestionTree* tree) {
  for (const TrieRun& run : QuestionRuns(batch, trie, question)) {
    v1::TreeNode* node = tree->add_nodes();
    node->set_parent(run.parent);
    node->set_start_depth(static_cast<uint64_t>(run.start_depth));
    const auto first = trie.token.begin() + run.first_node;
    node->mutable_tokens()->Add(first, first + run.size);
    node->mutable_candidates()->Add(run.candidates.begin(), run.candidates.end());
  }
}

}  // namespace

absl::StatusOr<ExplainFields> ReadExplainRequest(absl::string_view message) {
  ExplainFields fields;
  WireReader reader(message);
  int num_requests = 0;
  for (WireField field; reader.Next(&field);) {
    if (field.IsBytes(Fields::kRequestFieldNumber)) {
      fields.request = field.bytes;
      ++num_requests;
    } else if (field.IsVarint(Fields::kSvgFieldNumber)) {
      fields.svg = field.varint != 0;
    } else if (field.IsVarint(Fields::kMaxSvgSegmentsFieldNumber)) {
      const auto segments = static_cast<uint32_t>(field.varint);
      fields.max_svg_segments = segments == 0 ? kDefaultSvgSegments : segments;
    }
  }
  if (reader.malformed()) {
    return Refuse("ExplainRequest", "the bytes are not a canopy.v1.ExplainRequest");
  }
  if (num_requests > 1) {
    return Refuse("request", "the field is on the wire more than once");
  }
  if (fields.max_svg_segments > kMaxSvgSegments) {
    return Refuse("max_svg_segments",
                  absl::StrCat(fields.max_svg_segments, " exceeds the limit ", kMaxSvgSegments));
  }
  return fields;
}

absl::StatusOr<v1::ExplainResponse> ExplainRequest(const ExplainFields& fields,
                                                   const PreparedRequest& request,
                                                   const Engine& engine) {
  const Stopwatch planning;
  CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan, engine.Plan(request.job));
  const double plan_ms = planning.ElapsedMs();
  v1::ExplainResponse response;
  *response.mutable_stats() = PlanStats(plan.counts(), plan.route());
  response.mutable_stats()->set_parts(static_cast<uint64_t>(plan.num_parts()));
  response.mutable_stats()->set_plan_ms(plan_ms);
  *response.mutable_work() = PlanWork(plan, request.job.outputs, *request.model);
  for (const RouteForecast& forecast : plan.forecasts()) {
    v1::RouteForecast* entry = response.add_forecasts();
    entry->set_backend(ToWire(forecast.backend));
    entry->set_predicted_ms(forecast.ms);
    entry->set_forwards(static_cast<uint64_t>(forecast.load.forwards));
    entry->set_computed_tokens(static_cast<uint64_t>(forecast.load.tokens));
  }

  const PathBatch& batch = plan.batch();
  std::vector<std::string> ids;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    ids.emplace_back(request.questions.question_ids[question].In(fields.request));
    v1::QuestionTree* tree = response.add_questions();
    tree->set_id(ids.back());
    FillTree(batch, *plan.trie(), question, tree);
  }
  if (fields.svg) {
    response.set_svg(DrawForest(batch, *plan.trie(), fields.max_svg_segments, ids));
  }
  return response;
}

}  // namespace canopy::server
