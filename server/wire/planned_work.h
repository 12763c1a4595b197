// What answering a request would take beside its route: rows of the device and bytes of the answer.
#ifndef SERVER_WIRE_PLANNED_WORK_H_
#define SERVER_WIRE_PLANNED_WORK_H_

#include "canopy/v1/types.pb.h"
#include "core/engine/types.h"
#include "core/tree/tree_plan.h"

namespace canopy::server {

// Builds the parts of `plan` one after the other: as much host work as answering.
v1::PlannedWork PlanWork(const RequestPlan& plan, const OutputSelection& outputs,
                         const ModelInfo& model);

}  // namespace canopy::server

#endif  // SERVER_WIRE_PLANNED_WORK_H_
