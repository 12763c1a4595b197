#include "server/rpc/score_work.h"

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/rpc/model_lookup.h"
#include "server/wire/output_checks.h"
#include "server/wire/pad_ending.h"

namespace canopy::server {
namespace {

// The most memory that reading a message takes for each of its bytes.
constexpr int64_t kReadBytesPerByte = 8;
// The memory of a plan's trie, grid and index arrays for each token as sent.
constexpr int64_t kPlanBytesPerToken = 40;
// The memory of a candidate's score, flags, ids and messages.
constexpr int64_t kAnswerBytesPerPath = 128;

// Returns the host memory that a request takes until it is answered, without the answer.
int64_t RequestBytes(const grpc::Slice& message, const PathBatch& batch) {
  const auto tokens = static_cast<int64_t>(batch.tokens.size());
  return static_cast<int64_t>(message.size()) +
         tokens * (kPlanBytesPerToken + static_cast<int64_t>(sizeof(int32_t))) +
         batch.num_paths() * static_cast<int64_t>(sizeof(TokenSpan));
}

}  // namespace

// Memory is reserved before it is allocated.
absl::Status ScoreWork::Prepare(Engine* engine, absl::string_view client) {
  CANOPY_RETURN_IF_ERROR(
      reservation_.Resize(kReadBytesPerByte * static_cast<int64_t>(message_.size())));
  RequestNotes notes;
  absl::StatusOr<PreparedRequest> request = PrepareRequest(
      ViewOf(message_), context_.request_limits,
      [engine](absl::string_view name) { return FindLoadedModel(*engine, name); }, &notes);
  context_.raw_tokens.Record(client, notes);
  CANOPY_ASSIGN_OR_RETURN(request_, std::move(request));
  const PathBatch& batch = *request_.job.batch;
  answer_bytes_ = batch.num_paths() * kAnswerBytesPerPath +
                  AnswerBytes(request_.job.outputs, *request_.model, batch);
  return reservation_.Resize(RequestBytes(message_, batch) + answer_bytes_);
}

absl::Status ScoreWork::Start(Engine* engine, grpc::Slice message, const Caller& caller,
                              Callback done) {
  message_ = std::move(message);
  CANOPY_RETURN_IF_ERROR(Prepare(engine, caller.client));
  times_.decode_ms = times_.total.ElapsedMs();
  done_ = std::move(done);

  ScoreJob job = request_.job;
  job.client = caller.client;
  job.deadline = caller.deadline;
  job_id_ = job.id = engine->NewJobId();
  engine_.store(engine);
  CANOPY_RETURN_IF_ERROR(engine->Submit(std::move(job), [this](absl::StatusOr<ScoreResult> result) {
    result_ = std::move(result);
    encode_queue_ = Stopwatch();
    // The pool accepts any number of tasks, because each request has reserved its memory.
    (void)context_.EncodersFor(answer_bytes_).Schedule([this] { Encode(); });
  }));
  // The request may have been cancelled before the engine knew the job.
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
  times_.encode_queue_ms = encode_queue_.ElapsedMs();
  // `this` may be deleted as soon as done_ is called.
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
  observation.is_pad_ended =
      ScoresAPadEndedPath(*request_.job.batch, request_.job.outputs, *result.model);
  observation.parts = result.parts;
  observation.batch_requests = result.batch_requests;
  observation.priority = request_.job.priority;
  observation.decode_ms = times_.decode_ms;
  observation.stages = result.times;
  observation.encode_queue_ms = times_.encode_queue_ms;
  EncodedResponse encoded =
      EncodeScoreResponse({ViewOf(message_), request_, times_}, std::move(result));
  observation.unscored_paths = encoded.unscored_paths;
  observation.encode_ms = encoded.encode_ms;
  observation.total_ms = encoded.total_ms;
  context_.metrics.Observe(observation);
  // After this point only the encoded bytes are needed.
  request_ = {};
  (void)reservation_.Resize(static_cast<int64_t>(message_.size() + encoded.bytes.Length()));
  done(std::move(encoded.bytes));
}

}  // namespace canopy::server
