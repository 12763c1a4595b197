// The work of an answer that its route does not show: rows on the device, and bytes.
#ifndef SERVER_WIRE_PLANNED_WORK_H_
#define SERVER_WIRE_PLANNED_WORK_H_

#include "canopy/v1/types.pb.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy::server {

// Builds the parts of `plan` one after the other, which takes as much host work as an answer.
v1::PlannedWork PlanWork(const RequestPlan& plan, const OutputSelection& outputs,
                         const ModelInfo& model);

}  // namespace canopy::server

#endif  // SERVER_WIRE_PLANNED_WORK_H_
