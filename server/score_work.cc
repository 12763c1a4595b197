#include "server/score_work.h"

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "server/model_lookup.h"

namespace canopy::server {

absl::Status ScoreWork::Start(Engine* engine, grpc::Slice message, const Caller& caller,
                              Callback done) {
  message_ = std::move(message);
  CANOPY_ASSIGN_OR_RETURN(request_, PrepareRequest(ViewOf(message_), context_.request_limits,
                                                   [engine](absl::string_view name) {
                                                     return FindLoadedModel(*engine, name);
                                                   }));
  times_.decode_ms = times_.total.ElapsedMs();
  done_ = std::move(done);

  ScoreJob job = request_.job;
  job.client = caller.client;
  job.deadline = caller.deadline;
  job_id_ = job.id = engine->NewJobId();
  engine_.store(engine);
  CANOPY_RETURN_IF_ERROR(engine->Submit(std::move(job), [this](absl::StatusOr<ScoreResult> result) {
    result_ = std::move(result);
    // Cannot be refused: any number may wait, since each holds a place among admitted calls.
    (void)context_.completions.Schedule([this] { Encode(); });
  }));
  // It may have been cancelled before the engine knew the job.
  if (cancelled_.load()) {
    engine->Cancel(job_id_);
  }
  return absl::OkStatus();
}

void ScoreWork::Cancel() {
  cancelled_.store(true);
  if (Engine* engine = engine_.load(); engine != nullptr) {
    engine->Cancel(job_id_);
  }
}

void ScoreWork::Encode() {
  // `this` may go as soon as done_ is called.
  const Callback done = std::move(done_);
  if (!result_.ok()) {
    done(result_.status());
    return;
  }
  ScoreResult& result = *result_;
  ScoreObservation& observation = observation_.emplace();
  observation.model = result.model;
  observation.counts = result.counts;
  observation.route = result.route;
  observation.computed_tokens = result.computed_tokens;
  observation.questions = request_.head.counts.questions;
  observation.paths = static_cast<int64_t>(result.finite.size());
  observation.parts = result.parts;
  observation.batch_requests = result.batch_requests;
  observation.priority = request_.job.priority;
  observation.decode_ms = times_.decode_ms;
  observation.stages = result.times;
  EncodedResponse encoded =
      EncodeScoreResponse({ViewOf(message_), request_, times_}, std::move(result));
  observation.unscored_paths = encoded.unscored_paths;
  observation.encode_ms = encoded.encode_ms;
  observation.total_ms = encoded.total_ms;
  context_.metrics.Observe(observation);
  done(std::move(encoded.bytes));
}

}  // namespace canopy::server
