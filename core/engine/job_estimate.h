// What a job will take, estimated when it comes: for admission, order and batch limits.
#ifndef CORE_ENGINE_JOB_ESTIMATE_H_
#define CORE_ENGINE_JOB_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "core/engine/types.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

struct JobEstimate {
  int64_t tokens = 0;        // that the device computes (core/tree/work_estimate.h)
  int64_t device_bytes = 0;  // a float32 hidden state a token, and the results
  // The least time that the costs of the measured policy give the request; 0 under another policy.
  int64_t forecast_nanos = 0;
};

// Linear in the tokens as sent. Wants a valid batch. Tokens and bytes are at least 1 and at most
// 2^40.
JobEstimate EstimateJob(const ScoreJob& job, const RouteOptions& route, const ModelInfo& model);

// Equal for jobs that may run in one forward: one model, route and selection of outputs, and one
// tenant unless `across_tenants`. Empty for a job that the contract lets run alone only.
std::string ShareKey(const ScoreJob& job, const RouteOptions& route, const ModelInfo& model,
                     bool across_tenants);

}  // namespace canopy

#endif  // CORE_ENGINE_JOB_ESTIMATE_H_
