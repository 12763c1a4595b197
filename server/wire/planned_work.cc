#include "server/wire/planned_work.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tree/token_reads.h"
#include "server/wire/output_checks.h"

namespace canopy::server {
namespace {

uint64_t NumDistinct(std::vector<int32_t> slots) {
  std::sort(slots.begin(), slots.end());
  return static_cast<uint64_t>(std::unique(slots.begin(), slots.end()) - slots.begin());
}

void AddPart(const TreePlan& part, const OutputSelection& outputs, v1::PlannedWork* work) {
  work->set_computed_tokens(work->computed_tokens() +
                            static_cast<uint64_t>(part.computed_tokens()));
  work->set_endpoint_rows(work->endpoint_rows() + NumDistinct(part.endpoints));
  if (outputs.distributions()) {
    TokenReads reads = CollectTokenReads(part, outputs.scope, FirstTokens::kLeaveOut);
    work->set_distribution_rows(work->distribution_rows() +
                                NumDistinct(std::move(reads.source_slots)));
  }
  if (outputs.values) {
    work->set_value_rows(
        work->value_rows() +
        CollectTokenReads(part, outputs.scope, FirstTokens::kInclude).slots.size());
  }
}

}  // namespace

v1::PlannedWork PlanWork(const RequestPlan& plan, const OutputSelection& outputs,
                         const ModelInfo& model) {
  v1::PlannedWork work;
  for (std::string& name : OutputNames(outputs)) {
    work.add_outputs(std::move(name));
  }
  for (int32_t part = 0; part < plan.num_parts(); ++part) {
    AddPart(plan.BuildPart(part), outputs, &work);
  }
  work.set_answer_bytes(static_cast<uint64_t>(AnswerBytes(outputs, model, plan.batch())));
  return work;
}

}  // namespace canopy::server
