// Estimates the tokens, memory and time of a new job, for admission, order and batch limits.
#ifndef CORE_ENGINE_JOB_ESTIMATE_H_
#define CORE_ENGINE_JOB_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "core/engine/types.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

struct JobEstimate {
  int64_t tokens = 0;        // the tokens that the device computes (core/tree/work_estimate.h)
  int64_t device_bytes = 0;  // a float32 hidden state per token, and the results
  // The lower bound of the request's time by the costs of the measured policy; 0 under another
  // policy.
  int64_t forecast_nanos = 0;
};

// Linear in the tokens as sent. Precondition: the batch is valid. Tokens and bytes are at least 1
// and at most 2^40.
JobEstimate EstimateJob(const ScoreJob& job, const RouteOptions& route, const ModelInfo& model);

// Returns equal keys for jobs that may run in one forward: they have the same model, route and
// outputs, and the same tenant unless `across_tenants`. Returns an empty key for a job that must
// run alone.
std::string ShareKey(const ScoreJob& job, const RouteOptions& route, const ModelInfo& model,
                     bool across_tenants);

}  // namespace canopy

#endif  // CORE_ENGINE_JOB_ESTIMATE_H_
